"""Paths named like tars that are not regular files are errors in every reader and command, and never block."""

import json
import os
import socket

import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import HeadraceError, NotAFileError, StorageError
from headrace.stores.regular_files import oddity, open_regular
from headrace.stores.storage import LocalStorage
from headrace.streaming.cache.cache import ShardCache
from headrace.upkeep.tar_indexes import index_tars
from tests.plain.test_loader import members_of, write_tar
from tests.support.commands import runner
from tests.support.streaming.corpus import clips, write_dataset

pytestmark = pytest.mark.timeout(120)  # opening a pipe blocks until there is a writer

KINDS = {
    "link": (lambda path: path.symlink_to(path.with_name("nowhere")), "a broken link"),
    "loop": (lambda path: path.symlink_to(path.name), "a broken link"),
    "pipe": (os.mkfifo, "a named pipe"),
    "folder": (os.mkdir, "a folder"),
    "device": (lambda path: path.symlink_to("/dev/null"), "a device"),
}
WAYS = ["", "*.tar", "train-{000..002}.tar", "train-001.tar", "?rain-*"]


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture(params=KINDS, ids=str)
def odd(request, tmp_path):
    """A folder of three tars, of which one is not a regular file, and a description of what it is."""
    for number in (0, 2):
        write_tar(tmp_path / f"train-{number:03d}.tar", members_of(clips(4, first=4 * number)))
    make, words = KINDS[request.param]
    make(tmp_path / "train-001.tar")
    (tmp_path / "sizes.json").write_text(json.dumps({f"train-{number:03d}.tar": 4 for number in range(3)}))
    return tmp_path, words


def streamed(remote):
    list(StreamingDataLoader(StreamingDataset(remote=str(remote), batch_size=4), num_threads=1))


def piped(remote):
    list(webdataset_loader(str(remote)))


@pytest.mark.parametrize("read", [streamed, piped])
@pytest.mark.parametrize("way", WAYS)
def test_the_error_about_a_special_file_names_it_before_anything_is_read(odd, read, way):
    folder, words = odd
    if (words, way) == ("a folder", "train-001.tar"):  # then the folder's tars are read
        with pytest.raises(HeadraceError, match=r"train-001\.tar.*no.* shards"):
            read(folder / way)
        return
    with pytest.raises(NotAFileError, match=rf"train-001\.tar: is {words}.*, not a tar; put the tar there"):
        read(folder / way)


@pytest.mark.parametrize("read", [streamed, piped])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_the_error_about_a_special_file_in_a_list_of_shards_names_it_when_it_is_read(odd, read, is_indexed):
    folder, _ = odd
    if is_indexed:
        index_tars(f"{folder}/train-000.tar", num_threads=1)
        (folder / "train-001.idx").write_bytes((folder / "train-000.idx").read_bytes())
    with pytest.raises(HeadraceError, match=r"train-001\.tar"):
        read(folder / "sizes.json")


@pytest.mark.parametrize("command", ["index", "verify", "inspect"])
def test_every_command_reports_a_special_file(odd, run, command):
    folder, words = odd
    for path in (folder, f"{folder}/*.tar"):
        code, _, err = run(command, path)
        assert code == 1
        assert f"train-001.tar: is {words}" in err
    code, _, err = run("simulate", folder, "--world-size", 1, "--batch-size", 1)
    assert (code, words in err) == (1, True)


def test_verify_of_a_list_names_the_special_file(odd, run):
    folder, _ = odd
    code, out, err = run("verify", folder / "sizes.json")
    assert code == 1
    assert "train-001.tar" in out + err


def test_a_special_file_that_is_not_requested_is_not_an_error(odd):
    folder, _ = odd
    (folder / "sizes.json").unlink()
    for name in ("train-{000,002}.tar", "train-00[02].tar"):
        assert len(StreamingDataset(remote=f"{folder}/{name}")) == 8
    write_tar(folder / "test-000.tar", members_of(clips(2, first=50)))
    assert len(StreamingDataset(remote=str(folder), split="test")) == 2
    assert len(list(webdataset_loader(str(folder), split="test"))) == 2


def test_hidden_names_and_links_to_tars_are_not_errors(tmp_path):
    write_tar(tmp_path / "a.tar", members_of(clips(4)))
    (tmp_path / "b.tar").symlink_to("a.tar")
    (tmp_path / ".c.tar").symlink_to("nowhere")
    (tmp_path / "notes.txt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert len(StreamingDataset(remote=str(tmp_path))) == 8


def test_special_files_in_subfolders_are_found_if_the_glob_reaches_them(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.tar").symlink_to("nowhere")
    write_tar(tmp_path / "b.tar", members_of(clips(4)))
    assert len(StreamingDataset(remote=str(tmp_path))) == 4
    assert len(StreamingDataset(remote=f"{tmp_path}/*.tar")) == 4
    with pytest.raises(NotAFileError, match=r"a/x\.tar: is a broken link"):
        StreamingDataset(remote=f"{tmp_path}/*/x.tar")
    with pytest.raises(NotAFileError, match=r"a/x\.tar: is a broken link"):
        webdataset_loader(f"{tmp_path}/a/*.tar")


def test_a_shard_of_an_output_that_became_a_pipe_is_an_error_in_every_reader(tmp_path, run):
    write_dataset(tmp_path, {"train": clips(4)})
    (shard,) = (tmp_path / "audio").glob("*.tar")
    shard.unlink()
    os.mkfifo(shard)
    for read in (streamed, piped):
        with pytest.raises(NotAFileError, match=r"\.tar.*: is a named pipe, not a file"):
            read(tmp_path / "audio")
    code, out, _ = run("verify", tmp_path)
    assert (code, "is a named pipe, not a file" in out) == (1, True)
    assert main(["export", str(tmp_path), str(tmp_path / "plain")]) in {0, 1}  # a hard link of a pipe, or an error


@pytest.mark.parametrize("name", ["index", "manifest", "snapshot", "sizes.json"])
def test_files_of_an_output_that_became_pipes_never_block_a_reader(tmp_path, name):
    write_dataset(tmp_path, {"train": clips(4)})
    where = {"index": "audio/*.idx", "manifest": "audio/manifests/*/*.json", "snapshot": "audio/snapshots/*.json"}
    (path,) = tmp_path.glob(where.get(name, "audio/sizes.json")) if name != "sizes.json" else [tmp_path / "sizes.json"]
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    if name in {"index", "snapshot"}:
        with pytest.raises(StorageError, match="a named pipe"):
            streamed(tmp_path / "audio")
    assert main(["verify", str(tmp_path)]) == (0 if name == "sizes.json" else 1)


def test_storage_opens_only_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    storage = LocalStorage(tmp_path)
    for name in ("pipe", "folder"):
        for read in (storage.read, storage.open):
            with pytest.raises(NotAFileError, match=rf"{name}: is a (named pipe|folder), not a file"):
                read(name)
        with pytest.raises(NotAFileError, match=rf"{name}: is a (named pipe|folder), not a file"):
            storage.read_ranges(name, [(0, 1)])


def test_a_socket_is_distinguished_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths of sockets must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(NotAFileError, match="is a socket or a device"):
            open_regular("socket")
        assert oddity(tmp_path / "socket") == "a socket"
    assert oddity(tmp_path / "absent") is None


def test_special_files_in_a_cache_are_deleted(tmp_path):
    cache = ShardCache(tmp_path / "cache", None)
    cache.folder.mkdir()
    os.mkfifo(cache.folder / "a.tar")
    assert cache.find("a.tar", 5) is None
    assert list(cache.folder.glob("a.tar")) == []
