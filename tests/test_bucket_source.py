"""Recordings in a bucket: which are listed, how they are opened, and a whole build from a bucket."""

import contextlib

import polars as pl
import pytest

import build
from headrace.catalog import bucket_source
from headrace.catalog.bucket_source import BucketSource
from headrace.catalog.sources import open_source
from headrace.errors import ConfigError, NotFoundError
from headrace.format.rejects import RejectReason
from headrace.format.snapshots import read_snapshot
from headrace.stores.storage import open_storage
from tests.instances import memory_instance
from tests.projects import Project
from tests.s3 import new_bucket


def paths_of(source):
    return [path for chunk in source.list() for path in chunk.path]


def source_with(*names, exclude=()):
    storage = open_storage("memory://")
    for name in names:
        storage.write(name, name.encode())
    return BucketSource(storage, exclude)


def test_hidden_names_and_excluded_paths_are_not_recordings():
    names = ("a.wav", ".hidden.wav", "b/.cache/c.wav", "b/c.wav", "meta.csv", "out/audio/x.tar", "outer.wav")
    assert paths_of(source_with(*names, exclude=("meta.csv", "out"))) == ["a.wav", "b/c.wav", "outer.wav"]


def test_a_listing_is_given_in_chunks_with_sizes_and_times(monkeypatch):
    monkeypatch.setattr(bucket_source, "_CHUNK_ROWS", 2)
    source = source_with("a", "bb", "ccc")
    chunks = list(source.list())
    assert [chunk.path for chunk in chunks] == [["a", "bb"], ["ccc"]]
    assert [chunk.num_bytes for chunk in chunks] == [[1, 2], [3]]
    stamp = source.stamp("bb")
    assert (stamp.num_bytes, stamp.mtime_ns) == (2, chunks[0].mtime_ns[1])
    with pytest.raises(NotFoundError):
        source.stamp("absent")


def test_a_name_that_our_stores_do_not_support_is_rejected_with_a_reason():
    found = bucket_source.Listing()
    bucket_source._add(found, bucket_source.StoredObject("a//b.wav", 1, 0.0))
    assert found.code == [RejectReason.BAD_NAME]
    assert "a//b.wav" in found.reason[0]


@pytest.mark.parametrize("whole_bytes", [64 << 20, 3])
def test_an_opened_recording_of_any_size_reads_and_seeks(monkeypatch, whole_bytes):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", whole_bytes)
    with source_with("recording").open("recording") as file:
        assert file.read() == b"recording"
        file.seek(2)
        assert file.read(3) == b"cor"
    with pytest.raises(NotFoundError):
        source_with().open("absent")


def test_an_invalid_source_is_rejected():
    with pytest.raises(ConfigError, match="files on a web server cannot be listed"):
        open_source("https://host/folder")
    with pytest.raises(ConfigError, match=r"output\.uri is the same prefix"):
        open_source("s3://bucket/data/", exclude=["s3://bucket/data"])
    with pytest.raises(ConfigError, match="unknown storage scheme"):
        open_source("ftp://host/folder")


def test_a_bucket_is_built_and_watched_like_a_folder(tmp_path, s3_server, monkeypatch, undrawn, capsys):
    bucket = new_bucket(s3_server, monkeypatch)
    local = Project(tmp_path / "local")
    local.folder.mkdir()
    local.write_tones(5)
    table = "path,title\n" + "".join(f"tone{n:03d}.wav,Tone {n}\n" for n in range(5))
    (local.folder / "meta.csv").write_text(table)
    local.write_yaml(
        source={"uri": str(local.recordings), "metadata": str(local.folder / "meta.csv"), "settle_seconds": 0}
    )
    remote = Project(tmp_path / "remote")
    remote.folder.mkdir()
    store = open_storage(f"{bucket}/raw")
    for path in local.recordings.iterdir():
        store.write(path.name, path.read_bytes())
    store.write("meta.csv", table.encode())
    store.write("notes.txt", b"no audio")
    settings = {"uri": f"{bucket}/raw", "metadata": f"{bucket}/raw/meta.csv", "settle_seconds": 0}
    remote.write_yaml(source=settings, output={"uri": f"{bucket}/raw/out"})
    instances = {project.folder: memory_instance() for project in (local, remote)}

    def run(project):
        monkeypatch.setattr("building.command.open_instance", lambda: contextlib.nullcontext(instances[project.folder]))
        return build.main(["tones", "--datasets", str(project.datasets)])

    assert (run(local), run(remote)) == (0, 0), capsys.readouterr().out
    audio = open_storage(f"{bucket}/raw/out/audio")
    shards = {entry.path for entry in audio.list() if entry.path.endswith(".tar")}
    assert shards == {path.name for path in (local.output / "audio").glob("*.tar")}
    (tmp_path / "rejected.parquet").write_bytes(open_storage(f"{bucket}/raw/out").read("catalog/rejected.parquet"))
    assert pl.read_parquet(tmp_path / "rejected.parquet")["path"].to_list() == ["notes.txt"]
    before = {entry.path for entry in audio.list()}
    assert run(remote) == 0
    assert {entry.path for entry in audio.list()} == before  # nothing changed
    store.write("tone001.wav", (local.recordings / "tone002.wav").read_bytes())
    store.delete("tone004.wav")
    assert run(remote) == 0
    snapshot = read_snapshot(audio).snapshot
    assert sum(totals.num_samples for totals in snapshot.splits.values()) == 4
