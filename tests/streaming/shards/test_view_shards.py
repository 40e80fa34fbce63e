"""Requests of a view: no byte of shards without chosen samples, ranges of sparse shards, counts once."""

import numpy as np
import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import IntegrityError
from headrace.streaming.shards.view_shards import reads_ranges
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import keys_once_kept
from tests.support.streaming.fault_server import Fault, fault_server
from tests.support.view_fixtures import write_view

PER_SHARD = 20
CLIPS = clips(60, frames=(60_000, 61_000))  # three shards of 2.4 MB


def number(key):
    return int(key.removeprefix("clip"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    write_dataset(folder, {"train": CLIPS}, per_shard=PER_SHARD)
    write_view(folder, "sparse", lambda key: int(number(key) in {3, 47}))
    write_view(folder, "mixed", lambda key: int(number(key) == 3 or number(key) >= 40))
    return folder


@pytest.fixture
def server(folder, monkeypatch):
    with fault_server(folder) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        yield face


def dataset(server, cache, view, **options):
    remote = f"{server.uri}/audio"
    return StreamingDataset(remote=remote, local=str(cache), view=view, batch_size=4, output="numpy", **options)


def keys(made):
    by_key = {clip.key: clip for clip in CLIPS}
    found = []
    for batch in StreamingDataLoader(made):
        for row, key in enumerate(batch["keys"]):
            if key:
                found.append(key)
                frames = int(batch["num_frames"][row])
                assert np.array_equal(batch["audio"][row, :, :frames], by_key[key].audio())
    return sorted(found)


def requests(server, part):
    return [request for request in server.requests if part in request.path]


@pytest.mark.medium
def test_shards_without_chosen_samples_are_never_asked_for(server, tmp_path):
    assert keys(dataset(server, tmp_path, "mixed", shuffle=True)) == [f"clip{n:05d}" for n in (3, *range(40, 60))]
    assert requests(server, "train_0000_000001-") == []


def test_of_a_sparse_shard_only_ranges_are_fetched(server, tmp_path):
    made = dataset(server, tmp_path, "sparse", shuffle=True)
    assert keys(made) == ["clip00003", "clip00047"]
    tars = requests(server, ".tar")
    sizes = [
        int(span.split("-")[1]) - int(span.removeprefix("bytes=").split("-")[0]) for span in (r.span for r in tars)
    ]
    assert sum(sizes) < 2.2 * 130_000
    assert not list(tmp_path.glob("*.tar"))


def test_of_a_dense_shard_the_whole_is_kept_in_the_cache(server, tmp_path):
    made = dataset(server, tmp_path, "mixed")
    keys_once_kept(StreamingDataLoader(made), tmp_path, 1)
    assert sorted(path.name[:17] for path in tmp_path.glob("*.tar")) == ["train_0000_000002"]


@pytest.mark.parametrize(
    ("drawn", "num_bytes", "expected"),
    [(1, 10 << 20, True), (8, 10 << 20, False), (25, 1 << 30, False), (10, 1 << 30, True), (1, 1 << 20, False)],
)
def test_ranges_are_fetched_if_requests_and_bytes_cost_less_than_the_shard(drawn, num_bytes, expected):
    assert reads_ranges(drawn, 50, num_bytes) is expected


@pytest.mark.medium
def test_counts_are_fetched_once_for_a_cache_folder(server, tmp_path):
    for _ in range(2):
        keys(dataset(server, tmp_path, "mixed", shuffle=True))
    assert len(requests(server, ".counts")) == 1
    (kept,) = (tmp_path / "views").iterdir()
    kept.write_bytes(kept.read_bytes()[:-60] + b"\0" * 60)
    assert len(keys(dataset(server, tmp_path, "mixed"))) == 21  # the damaged copy is replaced
    assert len(requests(server, ".counts")) == 2


def test_without_a_cache_folder_the_counts_of_each_shard_are_fetched_alone(server, tmp_path):
    (tmp_path / "file").write_text("no folder can be here")
    with pytest.warns(UserWarning, match="cache"):
        found = keys(dataset(server, tmp_path / "file/cache", "mixed"))
    assert len(found) == 21
    assert any(request.span for request in requests(server, ".counts"))


def test_a_condition_is_evaluated_on_the_columns_of_a_store(server, folder, tmp_path):
    write_columns(folder, "metadata", {"n": ("int", number)})
    made = StreamingDataset(remote=f"{server.uri}/audio", local=str(tmp_path), where="n in (3, 7)", batch_size=4)
    assert made.size == 2
    num_requests = len(requests(server, "columns/"))
    again = StreamingDataset(remote=server.uri, local=str(tmp_path), where="n in (3, 7)", batch_size=4)
    assert again.size == 2
    assert [r.path for r in requests(server, "columns/")[num_requests:] if r.path.endswith(".columns")] == []


def test_counts_that_are_damaged_in_the_store_are_an_error_that_names_the_file(server, tmp_path, short_pauses):
    server.fault = lambda request: Fault.FLIP if ".counts" in request.path else None
    made = dataset(server, tmp_path, "mixed")
    with pytest.raises((IntegrityError, ValueError), match=r"train-0000-.*\.counts"):
        keys(made)
