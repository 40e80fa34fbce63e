"""An export replaces and removes only files of earlier exports."""

import shutil

import pytest

from headrace.exports.exporting import export_snapshot
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars
from tests.plain.test_loader import members_of, write_tar
from tests.support.exports import everything, refused, tars
from tests.support.streaming.corpus import clips


def test_a_users_indexed_tars_are_never_touched(outputs, target):
    target.root.mkdir()
    for number in range(3):
        write_tar(target.root / f"train_{number:06d}.tar", members_of(clips(2, first=10 * number)))
    index_tars(str(target.root), num_threads=1)
    refused(outputs["small"], target, r"holds 3 tars .*no mark of an export .*remove the folder first")


@pytest.mark.parametrize("name", ["mine.tar", "train_000001.tar", "train_000001.idx", "deep/mine.tar"])
def test_files_that_a_user_added_to_an_export_are_never_touched(outputs, target, name):
    export_snapshot(outputs["small"], target)
    target.write(name, b"mine")
    refused(outputs["large"], target, f"{name} was not written by an export")


def test_a_tar_that_replaced_an_exported_one_is_never_touched(outputs, target):
    export_snapshot(outputs["large"], target)
    target.write("train_000002.tar", b"mine")
    refused(outputs["small"], target, "train_000002.tar was not written by an export")


def test_other_files_beside_an_export_are_kept(outputs, target):
    export_snapshot(outputs["large"], target)
    target.write("README.md", b"mine")
    assert export_snapshot(outputs["small"], target).num_removed == 2
    assert tars(target) == ["train_000000.tar"]
    assert target.read("README.md") == b"mine"


class CutError(Exception):
    """A kill after a number of changes of the target."""


class Dying:
    """A store that is killed before a change."""

    def __init__(self, storage, num_changes):
        self._storage, self._left = storage, num_changes

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def local_path(self, path):
        """None, so that every shard is a write."""

    def _count(self):
        if self._left == 0:
            raise CutError
        self._left -= 1

    def write(self, path, data):
        self._count()
        self._storage.write(path, data)

    def delete(self, path):
        self._count()
        self._storage.delete(path)


@pytest.mark.medium
@pytest.mark.parametrize(("first", "second"), [("small", "large"), ("large", "small")])
def test_an_export_that_was_killed_anywhere_is_continued(outputs, tmp_path, first, second):
    clean = LocalStorage(tmp_path / "clean")
    export_snapshot(outputs[second], clean)
    former = LocalStorage(tmp_path / "former")
    export_snapshot(outputs[first], former)
    for num_changes in range(100):
        target = LocalStorage(shutil.copytree(former.root, tmp_path / f"cut{num_changes}"))
        try:
            export_snapshot(outputs[second], Dying(target, num_changes))
            break
        except CutError:
            export_snapshot(outputs[second], target)
        assert everything(target) == everything(clean)
    assert num_changes > 5
