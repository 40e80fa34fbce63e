"""An export that is under way, or was killed, is read by no loader and no command as if it were whole."""

from json import dumps
from pathlib import Path

import pytest

from headrace import StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import NoShardsError
from headrace.exports.exporting import export_snapshot
from headrace.exports.folder import ExportFolder
from headrace.format.export_mark import MARK, read_mark
from headrace.source_kinds import source_kind
from headrace.sources.kinds.webdataset import WebdatasetOptions
from headrace.stores.storage import open_storage
from tests.support.s3 import new_bucket

DOORS = {
    "StreamingDataset": lambda uri: StreamingDataset(remote=uri),
    "a glob": lambda uri: StreamingDataset(remote=f"{uri}/*.tar"),
    "a brace pattern": lambda uri: StreamingDataset(remote=f"{uri}/train_{{000000..000001}}.tar"),
    "webdataset_loader": webdataset_loader,
    "source": lambda uri: source_kind("webdataset").open(uri, WebdatasetOptions(), ()),
}


class KilledError(Exception):
    """A kill in the middle."""


def killed(*args):
    raise KilledError


@pytest.fixture(params=["first", "second"])
def unfinished(request, outputs, target, monkeypatch):
    """A folder in which an export was killed after it had moved two tars and an index."""
    if request.param == "second":
        export_snapshot(outputs["small"], target)
    move, left = ExportFolder._move, iter(range(3))
    with monkeypatch.context() as patch:
        patch.setattr(ExportFolder, "_move", lambda *args: killed() if next(left, None) is None else move(*args))
        with pytest.raises(KilledError):
            export_snapshot(outputs["large"], target)
    return target


@pytest.mark.parametrize("door", DOORS)
def test_no_reader_takes_a_part_of_an_export_for_the_whole(unfinished, door):
    with pytest.raises(NoShardsError, match="running or was interrupted"):
        DOORS[door](unfinished.uri)


def test_the_next_export_finishes_it(unfinished, outputs, capsys):
    assert main(["verify", unfinished.uri]) == 1
    assert "export again" in capsys.readouterr().err
    export_snapshot(outputs["large"], unfinished)
    assert StreamingDataset(remote=unfinished.uri).size == 9
    assert main(["verify", unfinished.uri]) == 0


@pytest.mark.parametrize("form", ["lhotse", "nemo"])
def test_the_folder_of_a_split_is_no_whole_either(outputs, target, monkeypatch, form):
    move, left = ExportFolder._move, iter(range(2))
    with monkeypatch.context() as patch:
        patch.setattr(ExportFolder, "_move", lambda *args: killed() if next(left, None) is None else move(*args))
        with pytest.raises(KilledError):
            export_snapshot(outputs["splits"], target, form)
    moved = next(Path(target.uri).glob("*/*.tar"))
    for name in (moved.parent, moved, f"{target.uri}/*/*.tar"):
        with pytest.raises(NoShardsError, match="running or was interrupted"):
            StreamingDataset(remote=str(name))
    export_snapshot(outputs["splits"], target, form)
    assert not list(Path(target.uri).glob("*/.headrace-export.json"))


def test_a_mark_of_the_first_form_says_in_one_word_what_two_say_now(target):
    for is_complete in (True, False):
        target.write(MARK, dumps({"version": 1, "is_complete": is_complete, "files": {}}).encode())
        found = read_mark(target)
        assert (found.is_complete, found.lists_all) == (is_complete, is_complete)


@pytest.mark.medium
def test_an_export_to_a_bucket_that_fails_before_it_writes_leaves_what_is_there(outputs, s3_server, monkeypatch):
    target = open_storage(f"{new_bucket(s3_server, monkeypatch)}/out")
    export_snapshot(outputs["small"], target)
    with pytest.raises(KilledError), ExportFolder(target):
        raise KilledError
    assert StreamingDataset(remote=target.uri).size


@pytest.mark.medium
def test_an_export_that_is_writing_to_a_bucket_is_not_read(outputs, s3_server, monkeypatch):
    target = open_storage(f"{new_bucket(s3_server, monkeypatch)}/out")
    read = []

    def progress():
        with pytest.raises(NoShardsError, match="running or was interrupted"):
            StreamingDataset(remote=target.uri)
        read.append(True)

    export_snapshot(outputs["large"], target, progress=progress)
    assert len(read) == 3
    assert StreamingDataset(remote=target.uri).size == 9
