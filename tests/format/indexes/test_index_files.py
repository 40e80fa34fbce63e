"""Our indexes in folders with indexes of DALI and Energon: no foreign file is replaced, and all shards are read."""

import io
import json
import os
import time

import numpy as np
import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import FormatError
from headrace.exports.exporting import export_snapshot
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import find_index, is_index, write_index
from headrace.format.indexes.indexing import index_tar
from headrace.format.tars.tar import read_members
from headrace.stores.storage import LocalStorage, open_storage
from headrace.upkeep.gc import MIN_AGE_SECONDS, collect, find_garbage
from headrace.upkeep.tar_indexes import index_tars
from tests.plain.test_loader import members_of, write_tar
from tests.support.commands import runner
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of


def wds2idx(tar):
    """An index as DALI's `wds2idx` writes it: version and count, then extension, offset, size and name of each file."""
    lines, last = [], None
    for member in read_members(io.BytesIO(tar.read_bytes()), tar.name):
        key, _, extension = member.name.partition(".")
        part = f"{extension} {member.start} {member.stop - member.start} {member.name}"
        lines = [*lines[:-1], f"{lines[-1]} {part}"] if key == last else [*lines, part]
        last = key
    return f"v1.2 {len(lines)}\n" + "".join(f"{line}\n" for line in lines)


def energon(tar):
    """An index as Megatron-Energon writes it to `X.tar.idx`: u64 offsets of each sample's first header and the end."""
    members = list(read_members(io.BytesIO(tar.read_bytes()), tar.name))
    return np.array([member.start - 512 for member in members[::2]] + [members[-1].stop], np.uint64).tobytes()


@pytest.fixture
def folder(tmp_path):
    """A folder of two tars with the indexes of both tools."""
    tars = tmp_path / "tars"
    tars.mkdir()
    for number in range(2):
        tar = tars / f"train-{number:03d}.tar"
        write_tar(tar, members_of(clips(4, first=4 * number)))
        tar.with_suffix(".idx").write_text(wds2idx(tar))
        tar.with_suffix(".tar.idx").write_bytes(energon(tar))
    return tars


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


KEYS = [clip.key for clip in clips(8)]


def foreign_files(folder):
    content = {path.name: path.read_bytes() for path in folder.glob("*.idx")}
    return {name: blob for name, blob in content.items() if b'"headrace_index"' not in blob}


def streamed(remote, **more):
    loader = StreamingDataLoader(StreamingDataset(remote=str(remote), batch_size=4, **more), num_threads=1)
    return [key for batch in loader for key in batch["keys"] if key]


def piped(remote):
    return [sample["__key__"] for sample in webdataset_loader(str(remote), batch_size=None)]


def test_a_folder_with_foreign_indexes_is_read_with_indexes_in_the_cache_and_not_changed(folder, tmp_path):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for _ in range(2):
        assert streamed(folder, local=str(tmp_path / "cache")) == piped(folder) == KEYS
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert len(list((tmp_path / "cache/indexes").iterdir())) == 2


def test_the_length_of_a_pipeline_is_unknown_until_our_index_exists(folder):
    loader = webdataset_loader(str(folder / "*.tar"), batch_size=2)
    with pytest.raises(TypeError, match="headrace index"):
        len(loader)
    index_tars(str(folder), num_threads=1)
    (folder / "sizes.json").unlink()
    assert len(webdataset_loader(str(folder / "*.tar"), batch_size=2)) == 4


def test_index_writes_to_the_second_name_and_every_reader_finds_it(folder, tmp_path, capsys):
    theirs = foreign_files(folder)
    assert len(theirs) == 4
    for _ in range(2):
        assert main(["index", str(folder)]) == 0
        assert foreign_files(folder) == theirs
        names = sorted(path.name for path in folder.glob("*.headrace.idx"))
        assert names == ["train-000.headrace.idx", "train-001.headrace.idx"]
    assert main(["verify", str(folder)]) == 0
    assert streamed(folder, local=str(tmp_path / "cache")) == KEYS
    assert not (tmp_path / "cache/indexes").exists()
    capsys.readouterr()
    assert main(["inspect", str(folder)]) == 0
    assert "from 2 indexes" in capsys.readouterr().out


def test_verify_compares_only_our_index(folder, run):
    assert main(["verify", str(folder)]) == 0
    index_tars(str(folder), num_threads=1)
    write_tar(folder / "train-001.tar", members_of(clips(3, first=50)))
    code, out, _ = run("verify", folder)
    assert code == 1
    assert "train-001.tar" in out
    assert "train-000.tar" not in out.partition("not looked at")[0]


def test_readers_work_after_another_tool_has_overwritten_our_index(tmp_path):
    tar = tmp_path / "a.tar"
    write_tar(tar, members_of(clips(4)))
    index_tars(str(tmp_path), num_threads=1)
    assert is_index(tar.with_suffix(".idx").read_bytes())
    tar.with_suffix(".idx").write_text(wds2idx(tar))
    assert streamed(tmp_path, local=str(tmp_path / "cache")) == KEYS[:4]
    index_tars(str(tmp_path), num_threads=1)
    assert tar.with_suffix(".idx").read_text() == wds2idx(tar)
    assert (tmp_path / "a.headrace.idx").exists()


def test_after_the_foreign_file_is_removed_our_index_takes_the_first_name(folder):
    index_tars(str(folder), num_threads=1)
    (folder / "train-000.idx").unlink()
    index_tars(str(folder), num_threads=1)
    assert is_index((folder / "train-000.idx").read_bytes())
    assert sorted(path.name for path in folder.glob("*.headrace.idx")) == ["train-001.headrace.idx"]


@pytest.mark.parametrize("kind", ["empty", "folder", "pipe", "link", "loop"])
def test_any_other_file_with_the_name_is_kept(tmp_path, kind):
    write_tar(tmp_path / "a.tar", members_of(clips(2)))
    taken = tmp_path / "a.idx"
    make = {
        "empty": taken.touch,
        "folder": taken.mkdir,
        "pipe": lambda: os.mkfifo(taken),
        "link": lambda: taken.symlink_to(tmp_path / "nowhere"),
        "loop": lambda: taken.symlink_to(taken),
    }
    make[kind]()
    before = taken.lstat()
    index_tars(str(tmp_path), num_threads=1)
    assert (taken.lstat().st_ino, taken.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert len(find_index(LocalStorage(tmp_path), "a.tar").index) == 2
    assert streamed(tmp_path, local=str(tmp_path / "cache")) == KEYS[:2]
    assert not (tmp_path / "cache/indexes").exists()


def test_if_both_names_are_taken_the_tar_is_reported_as_not_indexed(folder):
    (folder / "train-000.headrace.idx").write_text("mine")
    found = {tar.name: tar.fault for tar in index_tars(str(folder), num_threads=1)}
    assert "train-000.headrace.idx: is not an index of Headrace; move it away" in found["train-000.tar"]
    assert not found["train-001.tar"]
    assert (folder / "train-000.headrace.idx").read_text() == "mine"


def test_the_same_rules_apply_in_an_object_store():
    storage = open_storage("memory://")
    index = index_tar(io.BytesIO(tar_of({"a.txt": b"a"})), "a.tar")
    write_index(storage, "a.tar", index)
    write_index(storage, "a.tar", index)
    storage.write("b.idx", b"v1.2 1\nflac 512 3 a.flac\n")
    write_index(storage, "b.tar", index)
    assert [entry.path for entry in storage.list()] == ["a.idx", "b.headrace.idx", "b.idx"]
    assert find_index(storage, "b.tar").path == "b.headrace.idx"


def test_an_index_in_a_store_costs_one_request(tmp_path, monkeypatch):
    write_tar(tmp_path / "a.tar", members_of(clips(2)))
    index_tars(str(tmp_path), num_threads=1)
    with fault_server(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        storage = open_storage(server.uri)
        assert len(find_index(storage, "a.tar").index) == 2
        assert find_index(storage, "b.tar") is None
        assert [(request.method, request.path) for request in server.requests] == [("GET", "a.idx"), ("GET", "b.idx")]


def test_our_own_damaged_index_is_an_error(tmp_path):
    write_tar(tmp_path / "a.tar", members_of(clips(2)))
    index_tars(str(tmp_path), num_threads=1)
    path = tmp_path / "a.idx"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FormatError, match=r"a\.idx"):
        streamed(tmp_path, local=str(tmp_path / "cache"))
    index_tars(str(tmp_path), num_threads=1)
    assert streamed(tmp_path, local=str(tmp_path / "cache")) == KEYS[:2]


@pytest.fixture
def output(tmp_path):
    """An output with a shard folder in which the shards of the first snapshot are garbage."""
    write_dataset(tmp_path / "out", {"train": clips(8, first=50)}, per_shard=4)
    write_dataset(tmp_path / "out", {"train": clips(12)}, per_shard=4)
    return tmp_path / "out"


@pytest.mark.medium
def test_a_repeated_export_keeps_indexes_of_dali(output, tmp_path):
    source, target = LocalStorage(output / "audio"), LocalStorage(tmp_path / "plain")
    export_snapshot(source, target)
    for tar in target.root.glob("*.tar"):
        tar.with_suffix(".idx").write_text(wds2idx(tar))
    theirs = foreign_files(target.root)
    assert len(theirs) == 3
    export_snapshot(source, target)
    assert foreign_files(target.root) == theirs
    assert len(list(target.root.glob("*.headrace.idx"))) == 3
    assert main(["verify", str(target.root)]) == 0
    assert sorted(streamed(target.root)) == sorted(clip.key for clip in clips(12))
    write_dataset(tmp_path / "less", {"train": clips(4)}, per_shard=4)
    export_snapshot(LocalStorage(tmp_path / "less/audio"), target)
    assert foreign_files(target.root) == theirs
    assert [path.name for path in target.root.glob("*.headrace.idx")] == ["train_000000.headrace.idx"]


def test_gc_removes_no_files_of_other_tools(output):
    audio = output / "audio"
    shards = sorted(path.name for path in audio.glob("*.tar"))
    for name in shards:
        (audio / f"{name}.idx").write_bytes(energon(audio / name))
    (audio / "mine.idx").write_text("v1.2 1\nflac 512 3 a.flac\n")
    (audio / "mine.tar").write_bytes(b"mine")
    kept = json.loads((audio / "sizes.json").read_text())
    dropped = next(name for name in shards if name not in kept)
    (audio / index_name(dropped)).write_text("v1.2 1\nflac 512 3 a.flac\n")
    theirs = foreign_files(audio)
    storage = LocalStorage(output)
    removed = collect(storage, find_garbage(storage, keep=1, now_seconds=time.time() + 3 * MIN_AGE_SECONDS))
    assert dropped in [entry.path for entry in removed["audio"]]
    assert foreign_files(audio) == theirs
    assert sorted(path.name for path in audio.glob("*.tar")) == sorted([*kept, "mine.tar"])
    assert len(streamed(audio)) == 12


@pytest.mark.medium
def test_the_error_about_an_overwritten_index_of_an_output_says_to_move_the_file(output, run):
    audio = output / "audio"
    name = next(iter(json.loads((audio / "sizes.json").read_text())))
    (audio / index_name(name)).write_text(wds2idx(audio / name))
    with pytest.raises(FormatError, match=r"\.idx: not an index of Headrace, .*move the file away"):
        streamed(audio)
    code, out, _ = run("verify", output)
    assert code == 1
    assert "another tool's file" in out


def test_index_of_an_export_keeps_facts_that_only_the_build_knows(tmp_path):
    """Frame rates of latents are not in the tar, and declared fields are always accepted."""
    write_dataset(tmp_path, {"train": clips(4)}, latents=True)
    target = LocalStorage(tmp_path / "plain")
    export_snapshot(LocalStorage(tmp_path / "latents/crepe"), target)
    before = {path: path.read_bytes() for path in target.root.glob("*.idx")}
    assert main(["index", str(target.root)]) == 0
    assert {path: path.read_bytes() for path in target.root.glob("*.idx")} == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"shardlist": [{"url": "train-000.tar", "nsamples": 4}], "name": "mine"},
            "is a list of wids, .*: move it away",
        ),
        ({"sizes": [1, 2]}, "Move that file away first"),
    ],
    ids=["wids", "another tool's"],
)
def test_a_sizes_json_of_another_form_is_an_error_before_anything_is_written(folder, content, words):
    (folder / "sizes.json").write_text(json.dumps(content))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FormatError, match=rf"sizes\.json: .*{words}"):
        index_tars(str(folder), num_threads=1)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
