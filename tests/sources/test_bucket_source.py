"""Recordings in a bucket: which are listed, how they are opened, and a whole build from a bucket."""

import contextlib
import hashlib
import re
from dataclasses import replace

import polars as pl
import pytest

import build
from headrace.config.source import Digests
from headrace.errors import ConfigError, FileChangedError, NotFoundError
from headrace.format.rejects import RejectReason
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.sources import bucket_source
from headrace.sources.bucket_source import BucketSource
from headrace.sources.content_digests import digest_of_tag
from headrace.sources.listing import FileStamp
from headrace.sources.sources import open_source
from headrace.stores.storage import ObjectStorage, open_storage
from tests.support.bucket_source import source_with, stamp_in
from tests.support.instances import memory_instance
from tests.support.projects import Project
from tests.support.s3 import new_bucket

SECOND = 1_000_000_000


def paths_of(source):
    return [path for chunk in source.list() for path in chunk.path]


def test_hidden_names_and_excluded_paths_are_not_recordings():
    names = ("a.wav", ".hidden.wav", "b/.cache/c.wav", "b/c.wav", "meta.csv", "out/audio/x.tar", "outer.wav")
    assert paths_of(source_with(*names, exclude=("meta.csv", "out"))) == ["a.wav", "b/c.wav", "outer.wav"]


def test_a_name_that_our_stores_do_not_support_is_rejected_with_a_reason():
    found = bucket_source.Listing()
    bucket_source._add(found, bucket_source.StoredObject("a//b.wav", 1, 0.0))
    assert found.code == [RejectReason.BAD_NAME]
    assert "a//b.wav" in found.reason[0]


@pytest.mark.parametrize("whole_bytes", [64 << 20, 3])
def test_an_opened_recording_of_any_size_reads_and_seeks(monkeypatch, whole_bytes):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", whole_bytes)
    source = source_with("recording")
    stamp = stamp_in(source, "recording")
    with source.open("recording", stamp) as file:
        assert file.read() == b"recording"
        file.seek(2)
        assert file.read(3) == b"cor"
        file.seek(-3, 2)
        assert (file.tell(), file.read(9), file.read(1)) == (6, b"ing", b"")
    with pytest.raises(NotFoundError), source.open("absent", stamp):
        pytest.fail("opened")


@pytest.mark.parametrize("whole_bytes", [64 << 20, 3])
def test_an_object_that_was_replaced_since_the_listing_is_an_error(monkeypatch, whole_bytes):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", whole_bytes)
    source = source_with("recording")
    stamp = stamp_in(source, "recording")
    for other in (FileStamp(8, stamp.mtime_ns), FileStamp(9, stamp.mtime_ns - 2 * SECOND)):
        with pytest.raises(FileChangedError, match="recording: the object changed"), source.open("recording", other):
            pytest.fail("opened")
    without_fraction = FileStamp(9, stamp.mtime_ns // SECOND * SECOND)
    with source.open("recording", without_fraction) as file:
        assert file.read() == b"recording"


def digest_in(source, path):
    with source.open_digested(path, stamp_in(source, path)) as opened:
        assert opened.file.read() == source.storage.read(path)
        return opened.digest


def test_the_digest_of_a_recording_is_that_of_its_bytes_or_its_etag(monkeypatch):
    source = source_with("a", "b")
    source.storage.write("empty", b"")
    by_store = BucketSource(source.storage, digests=Digests.STORE)
    assert digest_in(source, "a") == hashlib.sha256(b"a").hexdigest()
    assert re.fullmatch(r"etag-\d-[0-9a-f]{12}", digest_in(by_store, "a"))
    assert digest_in(by_store, "empty") == hashlib.sha256(b"").hexdigest()
    fetch = ObjectStorage.fetch
    monkeypatch.setattr(ObjectStorage, "fetch", lambda *arguments: replace(fetch(*arguments), tag=None))
    assert digest_in(by_store, "a") == hashlib.sha256(b"a").hexdigest()


def test_equal_etags_mean_equal_bytes_only_if_they_are_made_of_the_bytes():
    md5 = "5d41402abc4b2a76b9719d911017c592"
    for tag in (f'"{md5}"', f'"{md5}-12"', f'W/"{md5}"'):
        assert digest_of_tag(tag, "a.wav") == digest_of_tag(tag, "b.wav")
    for tag in ('"0x8D4BCC2E4835CD0"', '"CKWiqtPr1ucCEAE="', f'"{md5}-x"'):
        assert digest_of_tag(tag, "a.wav") != digest_of_tag(tag, "b.wav")


def test_an_invalid_source_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match="files on a web server cannot be listed"):
        open_source("https://host/folder")
    with pytest.raises(ConfigError, match=r"output\.uri is the same prefix"):
        open_source("s3://bucket/data/", exclude=["s3://bucket/data"])
    with pytest.raises(ConfigError, match="unknown storage scheme"):
        open_source("ftp://host/folder")
    with pytest.raises(ConfigError, match=r"source\.digests: store: source\.uri .* is a folder"):
        open_source(tmp_path, digests=Digests.STORE)


@pytest.mark.slow
def test_a_bucket_is_built_and_watched_like_a_folder(tmp_path, s3_server, monkeypatch, undrawn, capsys):
    bucket = new_bucket(s3_server, monkeypatch)
    local = Project(tmp_path / "local")
    local.folder.mkdir()
    local.write_tones(5)
    table = "path,title\n" + "".join(f"tone{n:03d}.wav,Tone {n}\n" for n in range(5))
    (local.folder / "meta.csv").write_text(table)
    layout = {"samples_per_shard": 2, "partitions": {"train": 1, "test": 1}}
    local.write_yaml(
        source={"uri": str(local.recordings), "metadata": str(local.folder / "meta.csv"), "settle_seconds": 0},
        shards=layout,
    )
    remote = Project(tmp_path / "remote")
    remote.folder.mkdir()
    store = open_storage(f"{bucket}/raw")
    for path in local.recordings.iterdir():
        store.write(path.name, path.read_bytes())
    store.write("meta.csv", table.encode())
    store.write("notes.txt", b"no audio")
    settings = {"uri": f"{bucket}/raw", "metadata": f"{bucket}/raw/meta.csv", "settle_seconds": 0}
    remote.write_yaml(source=settings, output={"uri": f"{bucket}/raw/out"}, shards=layout)
    instances = {project.folder: memory_instance() for project in (local, remote)}

    def run(project):
        monkeypatch.setattr(
            "headrace_dagster.build_command.command.open_instance",
            lambda _: contextlib.nullcontext(instances[project.folder]),
        )
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
