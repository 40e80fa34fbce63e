"""An export replaces and removes only files of earlier exports."""

import json
import shutil

import pytest

from headrace.errors import ConfigError, FormatError
from headrace.format.indexes.index import index_name
from headrace.stores.storage import LocalStorage
from headrace.upkeep.export import export_snapshot
from headrace.upkeep.export_mark import MARK
from headrace.upkeep.tar_indexes import index_tars
from tests.plain.test_loader import members_of, write_tar
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Shard folders with one and with three shards."""
    folder = tmp_path_factory.mktemp("outputs")
    write_dataset(folder / "small", {"train": clips(3)}, per_shard=3)
    write_dataset(folder / "large", {"train": clips(9)}, per_shard=3)
    return {name: LocalStorage(folder / name / "audio") for name in ("small", "large")}


@pytest.fixture
def target(tmp_path):
    return LocalStorage(tmp_path / "plain")


def tars(target):
    return sorted(path.name for path in target.root.glob("*.tar"))


def everything(target):
    return {path.relative_to(target.root): path.read_bytes() for path in target.root.rglob("*") if path.is_file()}


def refused(source, target, match):
    before = everything(target)
    with pytest.raises(ConfigError, match=match):
        export_snapshot(source, target)
    assert everything(target) == before


def test_a_users_indexed_tars_are_never_touched(outputs, target):
    target.root.mkdir()
    for number in range(3):
        write_tar(target.root / f"train_{number:06d}.tar", members_of(clips(2, first=10 * number)))
    index_tars(str(target.root), num_threads=1)
    refused(outputs["small"], target, r"holds 3 tars .*no mark of an export .*remove the folder first")


def test_a_folder_with_other_files_does_not_count_as_empty(outputs, target):
    target.root.mkdir()
    (target.root / "notes.txt").write_text("mine")
    refused(outputs["small"], target, r"holds files \(notes\.txt\)")


def test_the_error_about_an_export_without_its_mark_says_what_to_do(outputs, target):
    export_snapshot(outputs["small"], target)
    target.delete(MARK)
    refused(outputs["small"], target, "If an export whose mark was deleted wrote them, remove the folder first")


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


def test_the_mark_names_the_tars_with_their_sizes_and_a_later_version_is_an_error(outputs, target):
    export_snapshot(outputs["large"], target)
    mark = json.loads(target.read(MARK))
    assert mark == {"version": 1, "tars": {name: [target.size(name)] for name in tars(target)}}
    assert all(target.exists(index_name(name)) for name in tars(target))
    target.write(MARK, b'{"version": 2}')
    with pytest.raises(FormatError, match="not a mark of an export"):
        export_snapshot(outputs["large"], target)
