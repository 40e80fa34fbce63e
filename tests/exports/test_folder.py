"""Files of an export are out of sight until all are written, and files of others stay."""

import pytest

from headrace.errors import ConfigError
from headrace.exports.folder import ExportFolder
from headrace.format.export_mark import MARK
from headrace.stores.storage import LocalStorage, open_storage


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    return LocalStorage(tmp_path / "out") if request.param == "folder" else open_storage("memory://")


def write(place, *names, publish=True):
    folder = ExportFolder(place)
    with folder:
        for name in names:
            folder.write(name, name.encode())
        return folder.publish() if publish else None


def files(place):
    return {entry.path for entry in place.list()} - {MARK}


def test_files_of_the_export_before_are_removed(place):
    write(place, "a.tar", "deep/b.json", "c.tar")
    assert write(place, "a.tar") == 1
    assert files(place) == {"a.tar"}
    assert place.local_path("deep") is None or not place.local_path("deep").exists()


def test_a_local_file_is_visible_only_when_all_are_written(tmp_path):
    place = LocalStorage(tmp_path / "out")
    write(place, "a.tar", publish=False)
    assert files(place) == set()
    assert list(place.root.iterdir()) == []


def test_an_interrupted_export_can_be_repeated(place):
    write(place, "a.tar", "b.tar")
    write(place, "a.tar", "new.tar", publish=False)
    write(place, "a.tar", "new.tar")
    assert files(place) == {"a.tar", "new.tar"}


def test_what_an_interrupted_export_left_in_a_bucket_is_named():
    """After a kill, which no `with` block sees."""
    bucket = open_storage("memory://")
    ExportFolder(bucket).__enter__().write("left.tar", b"x")
    with pytest.raises(ConfigError, match=r"left\.tar was left by an export that was interrupted"):
        write(bucket, "a.tar")
    bucket.delete("left.tar")
    write(bucket, "a.tar")
    assert files(bucket) == {"a.tar"}


@pytest.mark.parametrize("left", ["left.tar", "train/left.tar", "data/train-00001-of-00002.parquet"])
def test_no_file_that_a_reader_takes_for_one_of_the_export_stays_beside_it(place, left):
    write(place, "a.tar", left)
    assert write(place, "a.tar") == 1
    place.write(left, b"mine")
    with pytest.raises(ConfigError, match=f"{left} was not written by an export"):
        write(place, "a.tar")
    bucket = open_storage("memory://")
    ExportFolder(bucket).__enter__().write(left, b"x")
    with pytest.raises(ConfigError, match=f"{left} was left by an export that was interrupted"):
        write(bucket, "a.tar")


def test_a_file_of_somebody_is_not_replaced(place):
    write(place, "a.tar")
    place.write("notes.json", b"mine")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"notes\.json was not written by an export"):
            write(place, "a.tar", "notes.json")
    assert place.read("notes.json") == b"mine"


def test_a_file_that_users_edit_is_written_once(place):
    for text in (b"1", b"22", b"333"):
        folder = ExportFolder(place)
        with folder:
            folder.write_once("README.md", text)
            folder.write("a.tar", b"a")
            folder.publish()
        if text == b"1":
            place.write("README.md", b"mine")
        assert place.read("README.md") == b"mine"


def test_an_edited_description_is_read_and_replaced(place):
    for text in (b"1", b"22"):
        folder = ExportFolder(place)
        with folder:
            assert folder.former("d.json") == (None if text == b"1" else b"edited")
            folder.write_edited("d.json", text)
            folder.publish()
        assert place.read("d.json") == text
        place.write("d.json", b"edited")


def test_scratch_files_are_closed_at_the_end(tmp_path):
    folder = ExportFolder(LocalStorage(tmp_path / "out"))
    with folder:
        scratch = folder.scratch()
        scratch.write(b"x")
    assert scratch.closed


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_a_shard_of_any_store_is_placed_in_any(kind, place, tmp_path):
    source = LocalStorage(tmp_path / "source") if kind == "folder" else open_storage("memory://")
    source.write("shard.tar", bytes(range(256)) * 9_000)
    folder = ExportFolder(place)
    with folder:
        folder.link("a.tar", source, "shard.tar")
        folder.publish()
    assert place.read("a.tar") == source.read("shard.tar")


def test_two_exports_to_one_local_folder_at_once_are_an_error(tmp_path):
    place = LocalStorage(tmp_path / "out")
    first, second = ExportFolder(place), ExportFolder(place)
    with first:
        first.write("a.tar", b"of the first")
        with pytest.raises(ConfigError, match="another export to this folder is running"):
            second.__enter__()
        first.publish()
    assert place.read("a.tar") == b"of the first"
    with second:  # which was made before the first one was published
        second.write("b.tar", b"of the second")
        second.publish()
    assert [entry.path for entry in place.list()] == ["b.tar"]
    write(place, "a.tar")
