"""Tars of others in a store: indexed by ranges, and only those that hold chosen samples are read."""

import re
from pathlib import Path

import pytest

from headrace import StreamingDataLoader, StreamingDataset, cli
from headrace.errors import ConfigError
from headrace.machine import num_cores
from headrace.ordered import TaskThreads
from headrace.upkeep import tar_sets
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from tests.support.foreign_tars import members, write_tars
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of

NUM_TARS, PER_TAR, FRAMES = 3, 6, 130_000  # members of 260 kB


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tars(tmp_path_factory.mktemp("bucket") / "tars", NUM_TARS, PER_TAR, num_frames=FRAMES, note="x" * 1500)


@pytest.fixture
def server(folder, monkeypatch):
    with fault_server(folder.parent) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        yield face


def read(server, *, of="tar"):
    """Requests for bytes of tars."""
    return [one for one in server.requests if one.method == "GET" and one.path.endswith(of)]


def num_bytes(requests):
    return sum(
        int(stop) - int(start) + 1 for start, stop in (one.span.removeprefix("bytes=").split("-") for one in requests)
    )


@pytest.mark.medium
def test_headers_and_json_are_read_by_ranges_and_nothing_is_written(server, folder, tmp_path):
    before = sorted(folder.iterdir())
    index_tars(f"{server.uri}/tars", num_threads=2, columns=True, into=str(tmp_path))
    total = sum(path.stat().st_size for path in before)
    assert num_bytes(read(server)) <= 0.03 * total
    assert len(read(server)) <= 4.5 * NUM_TARS * PER_TAR  # the JSON is longer than what is read with its header
    assert sorted(folder.iterdir()) == before
    server.requests.clear()
    index_tars(f"{server.uri}/tars", num_threads=2, into=str(tmp_path / "plain"))
    assert num_bytes(read(server)) <= 0.021 * total  # one request for the end of a tar, 200 bytes more than two


@pytest.mark.medium
@pytest.mark.parametrize("columns", [True, False])
def test_indexes_of_local_tars_are_not_written_into_a_store_where_no_reader_would_follow_them(
    server, folder, tmp_path, columns
):
    """A list that comes from a store never leads to files of one machine, so nobody could read it."""
    tars = write_tars(tmp_path / "tars", 1)
    with pytest.raises(ConfigError, match=r"into: no reader follows .* of one machine \(.*/tars\): name a local"):
        index_tars(str(tars), num_threads=1, columns=columns, into=f"{server.uri}/into")
    assert not (folder.parent / "into").exists()


@pytest.mark.medium
def test_many_tars_of_a_store_are_read_at_a_time_and_as_many_local_ones_as_there_are_cores(
    server, folder, tmp_path, monkeypatch
):
    asked = []

    class Threads(TaskThreads):
        def __init__(self, num_threads, name):
            asked.append(num_threads)
            super().__init__(num_threads, name)

    monkeypatch.setattr(tar_sets, "TaskThreads", Threads)
    assert cli.main(["index", f"{server.uri}/tars", "--into", str(tmp_path / "remote")]) == 0
    index_tars(str(folder), into=str(tmp_path / "local"))
    index_tars(str(folder), into=str(tmp_path / "one"), num_threads=1)
    assert asked == [64, num_cores(), 1]


@pytest.mark.medium
def test_tars_without_chosen_samples_are_never_asked_for(server, tmp_path):
    index_tars(f"{server.uri}/tars", num_threads=2, columns=True, into=str(tmp_path / "into"))
    server.requests.clear()
    made = StreamingDataset(
        remote=str(tmp_path / "into"), local=str(tmp_path / "cache"), where="number >= 6 and number < 9", batch_size=2
    )
    assert not read(server)
    assert sorted(key for batch in StreamingDataLoader(made) for key in batch["keys"] if key) == [
        "s006",
        "s007",
        "s008",
    ]
    assert {one.path.rpartition("/")[2] for one in server.requests if one.path.endswith(".tar")} == {"train-001.tar"}


def test_a_view_asks_for_its_own_tars_only(server, tmp_path):
    index_tars(f"{server.uri}/tars", num_threads=2, columns=True, into=str(tmp_path / "into"))
    make_view(str(tmp_path / "into"), "few", "number = 14", "2")
    server.requests.clear()
    made = StreamingDataset(remote=str(tmp_path / "into"), local=str(tmp_path / "cache"), view="few", batch_size=2)
    assert not server.requests
    assert [batch["keys"] for batch in StreamingDataLoader(made)] == [["s014", "s014"]]
    assert {one.path for one in server.requests} == {"tars/train-002.tar"}


def test_tars_that_did_not_change_are_not_read_again(server, tmp_path):
    index_tars(f"{server.uri}/tars", num_threads=2, columns=True, into=str(tmp_path))
    server.requests.clear()
    index_tars(f"{server.uri}/tars", num_threads=2, columns=True, into=str(tmp_path))
    assert not read(server)


def test_without_columns_one_request_for_each_sample_reads_a_hundredth_of_the_bytes(tmp_path, monkeypatch):
    (folder := tmp_path / "bucket/tars").mkdir(parents=True)
    for tar in range(2):
        files = {name: blob for n in range(12) for name, blob in members(n + 12 * tar, num_frames=FRAMES).items()}
        pairs = {name: blob for name, blob in files.items() if name.endswith(("flac", "json"))}
        (folder / f"train-{tar:03d}.tar").write_bytes(tar_of(pairs))
    with fault_server(folder.parent) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        index_tars(f"{face.uri}/tars", num_threads=2, into=str(tmp_path / "into"))
        for tar in folder.iterdir():
            asked = read(face, of=tar.name)
            assert len(asked) <= 1.2 * 12
            assert num_bytes(asked) <= 0.01 * tar.stat().st_size


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts bytes of a process")
def test_of_local_tars_no_more_is_read(folder, tmp_path):
    total = sum(path.stat().st_size for path in folder.iterdir())
    index_tars(str(folder), num_threads=2, columns=True, into=str(tmp_path / "first"))  # imports are files, too
    before = bytes_of_calls()
    index_tars(str(folder), num_threads=2, columns=True, into=str(tmp_path / "second"))
    assert bytes_of_calls() - before <= 0.08 * total  # four members a sample, and files that are not tars


def bytes_of_calls():
    """Bytes that this process has read by calls."""
    return int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])
