"""Columns that are read from a store: each file once, kept in the cache folder, and fetched again if it is damaged."""

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.assemble.column_sets import bring_columns_up_to_date
from headrace.errors import SampleError
from tests.support.builds import twenty_clips
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import Fault, fault_server
from tests.support.view_fixtures import write_view

pytestmark = pytest.mark.medium

SAMPLES = {"train": clips(23)}
NUM_SHARDS = 5
CAPTIONS = {spec("caption", "string"): lambda clip: clip.key[-2:], spec("snr", "float"): lambda clip: clip.number}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("stored")
    audio = write_dataset(made, SAMPLES, latents=True)
    write_columns(made, "captions", CAPTIONS, SAMPLES, audio)
    write_view(made, "odd", lambda key: 2 * (int(key[-2:]) % 2))
    return made


@pytest.fixture
def store(folder, monkeypatch, short_pauses):
    with fault_server(folder) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        yield face


def batches(remote, cache=None, num_workers=0, **more):
    more = {"columns": ["captions"], "tensors": ["snr"], "batch_size": 4, "shuffle": True, **more}
    return list(StreamingDataLoader(StreamingDataset(remote=str(remote), local=cache, **more), num_workers=num_workers))


def columns_of(found):
    return [(batch["keys"], batch["metadata"], batch["snr"].tolist()) for batch in found]


def reads(store):
    """Files of columns that were asked for."""
    return [request.path for request in store.requests if request.path.endswith(".columns")]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("predownload", [0, None])
def test_each_file_is_fetched_once_and_then_kept(store, folder, tmp_path, num_workers, predownload):
    wanted = columns_of(batches(folder))
    more = {"num_workers": num_workers, "predownload": predownload}
    assert columns_of(batches(store.uri, tmp_path, **more)) == wanted
    assert NUM_SHARDS <= len(reads(store)) <= NUM_SHARDS * (1 + num_workers)
    store.requests.clear()
    assert columns_of(batches(store.uri, tmp_path, **more)) == wanted
    assert reads(store) == []


def test_a_file_that_arrives_damaged_is_fetched_again(store, folder, tmp_path):
    left = [2]

    def damage(request, _, blob):
        if not request.path.endswith(".columns") or not left[0]:
            return blob
        left[0] -= 1
        return blob[:-1] + bytes([blob[-1] ^ 1])

    store.damage = damage
    assert columns_of(batches(store.uri, tmp_path)) == columns_of(batches(folder))
    assert left == [0]
    assert len(reads(store)) == NUM_SHARDS + 2


def test_a_file_that_is_damaged_in_the_store_is_named(store, tmp_path):
    store.damage = lambda request, _, blob: blob[:-1] if request.path.endswith(".columns") else blob
    with pytest.raises(SampleError, match=r"columns/captions/train_0000_\w+-\w+\.columns.*downloaded 3 times"):
        batches(store.uri, tmp_path)


def test_a_damaged_file_in_the_cache_is_fetched_again(store, folder, tmp_path):
    wanted = columns_of(batches(store.uri, tmp_path))
    kept = sorted(tmp_path.glob("*.columns*"))
    assert len(kept) == NUM_SHARDS
    kept[0].write_bytes(kept[0].read_bytes()[:-1])
    store.requests.clear()
    assert columns_of(batches(store.uri, tmp_path)) == wanted
    assert len(reads(store)) == 1


def test_a_request_that_fails_is_sent_again(store, folder, tmp_path):
    store.fail_first(Fault.ERROR_503, 3, ".columns")
    assert columns_of(batches(store.uri, tmp_path)) == columns_of(batches(folder))


def test_samples_of_a_view_have_their_own_columns(folder, store, tmp_path):
    for found in (batches(folder, view="odd"), batches(store.uri, tmp_path, view="odd")):
        keys = [key for batch in found for key in batch["keys"] if key]
        assert sorted(keys) == sorted([clip.key for clip in SAMPLES["train"] if clip.number % 2] * 2)
        for batch in found:
            real = [row for row, key in enumerate(batch["keys"]) if key]
            assert [batch["metadata"][row]["caption"] for row in real] == [batch["keys"][row][-2:] for row in real]
            assert [batch["snr"][row] for row in real] == [int(batch["keys"][row][-2:]) for row in real]


def test_the_set_metadata_of_a_build_gives_facts_as_tensors(tmp_path):
    project = twenty_clips(tmp_path)
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    remote = tmp_path / "output"
    dataset = StreamingDataset(remote=remote, columns=["metadata"], tensors=["duration_seconds", "num_channels"])
    for sample in dataset:
        metadata = sample["metadata"]
        number = int(metadata["path"][4:6])
        assert metadata["key"] == sample["__key__"]
        assert metadata["duration_seconds"] == (300 + number) / 8000
        assert float(sample["duration_seconds"]) == pytest.approx((300 + number) / 8000)
        assert int(sample["num_channels"]) == 1
        assert "headrace" in metadata
