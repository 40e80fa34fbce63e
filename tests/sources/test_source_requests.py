"""Requests of scan and build to the store of the source, counted on an S3 server.

A test fails if there are more requests than the numbers written here.
"""

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from headrace.assemble.samples import sample_json
from headrace.catalog.judging.validation import check_catalog
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.partitions import recordings_of
from headrace.config.source import Digests
from headrace.errors import FileChangedError
from headrace.sources import bucket_source
from headrace.sources.sources import open_source
from tests.sources.test_bucket_source import stamp_in
from tests.support.builds import Project, check, write_wav
from tests.support.catalog_fakes import AT_ONCE
from tests.support.streaming.fault_server import fault_server

NUM_FILES = 20
FILES_OF_A_PAGE = 7
NUM_PAGES = 3
MOST_GETS, MOST_HEADS = 2, 0
"""For each recording: one GET by the scan, one by the build."""


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A project whose recordings are in a bucket; with the bucket's server."""
    project = Project(tmp_path)
    for number in range(NUM_FILES):
        project.put(f"clip{number:02d}.wav", num_frames=300 + number)
    with fault_server(project.folder / "source") as server:
        server.page_keys = FILES_OF_A_PAGE
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        project.source_uri = server.uri
        yield project, server


def requests_of(server, action):
    """The number of requests of each kind for each object, and of listings, while `action` runs."""
    server.requests.clear()
    action()
    return Counter((request.method, request.path) if request.path else "LIST" for request in server.requests)


@pytest.mark.medium
@pytest.mark.parametrize("whole_bytes", [64 << 20, 100], ids=["whole", "in pieces"])
def test_a_first_build_reads_each_recording_twice_and_sends_nothing_else(bucket, monkeypatch, whole_bytes):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", whole_bytes)
    project, server = bucket
    found = requests_of(server, lambda: check(project, project.build()))
    assert found.pop("LIST") == NUM_PAGES
    assert {number for (method, _), number in found.items() if method == "GET"} == {MOST_GETS}
    assert sum(number for (method, _), number in found.items() if method == "HEAD") == MOST_HEADS
    assert len(found) == NUM_FILES


@pytest.mark.medium
def test_a_build_without_changes_only_lists_the_source(bucket):
    project, server = bucket
    project.build()
    assert requests_of(server, project.build) == {"LIST": NUM_PAGES}


@pytest.mark.medium
def test_one_changed_recording_is_read_by_the_scan_and_its_shard_by_the_build(bucket):
    project, server = bucket
    shard = project.build().shard_of("clip03")
    project.put("clip03.wav", seed="other", num_frames=310)
    found = requests_of(server, project.build)
    assert found.pop("LIST") == NUM_PAGES
    assert found[("GET", "clip03.wav")] == MOST_GETS
    assert len(found) <= project.layout.samples_per_shard
    assert sum(found.values()) <= project.layout.samples_per_shard + 1, shard


def test_an_object_that_is_replaced_between_two_pieces_is_an_error(bucket, monkeypatch):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", 100)
    monkeypatch.setattr(bucket_source, "_PIECE_BYTES", 200)
    project, server = bucket
    source = open_source(server.uri)
    with source.open("clip03.wav", stamp_in(source, "clip03.wav")) as file:
        project.put("clip03.wav", seed="other", num_frames=303)
        with pytest.raises(FileChangedError, match=r"clip03\.wav in s3://bucket: the object changed while it was read"):
            file.read()


def bytes_of(server):
    """Bytes of objects that were asked for."""
    total = 0
    for request in server.requests:
        if request.path:
            first, _, last = (request.span or "bytes=0-").removeprefix("bytes=").partition("-")
            size = (server.folder / request.path).stat().st_size
            total += min(size, int(last) + 1 if last else size) - int(first)
    return total


def test_with_digests_of_the_store_a_scan_reads_headers_only(tmp_path, monkeypatch):
    for number in range(3):
        write_wav(tmp_path / "source" / f"{number}.wav", number, num_frames=400_000)
    (tmp_path / "source/copy.wav").write_bytes((tmp_path / "source/0.wav").read_bytes())
    with fault_server(tmp_path / "source") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        source = open_source(server.uri, digests=Digests.STORE)
        result = scan(source, None, AT_ONCE)
        check_catalog(result.recordings, result.rejected)
        assert result.recordings["num_frames"].to_list() == [400_000] * 4
        assert set(Counter(request.path for request in server.requests if request.path).values()) == {1}
        assert bytes_of(server) <= 4 * 128 * 1024
        (recording, *_) = recordings_of(result.recordings)
        segment = SimpleNamespace(start_frame=0, num_frames=1, sample_rate_hz=8000, num_channels=1)
        provenance = json.loads(sample_json(recording, segment, segment))["headrace"]
        assert (f"etag-{provenance['source_etag']}", "source_sha256" in provenance) == (recording.sha256, False)
        server.requests.clear()
        assert scan(source, result.catalog, AT_ONCE).num_opened == 0
        assert bytes_of(server) == 0
        (tmp_path / "source/1.wav").write_bytes((tmp_path / "source/2.wav").read_bytes() + b"\0\0")
        other = scan(source, result.catalog, AT_ONCE)
    changed = other.recordings["recording_digest"] != result.recordings["recording_digest"]
    assert other.recordings.filter(changed)["path"].to_list() == ["1.wav"]
