"""A view of 1% of ten million samples: equal global batches on every world, opened in little memory."""

import importlib.util
from pathlib import Path

import numpy as np
import psutil
import pytest

from headrace import StreamingDataset, World

ROOT = Path(__file__).parents[2]
SHARDS = 10_000
GLOBAL_BATCH = 24
MIB = 1 << 20


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """A snapshot of 10,000 shards of 1,000 samples, without the shards, and its view."""
    spec = importlib.util.spec_from_file_location("views_benchmark", ROOT / "benchmarks/views.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    folder = tmp_path_factory.mktemp("scale")
    benchmark.make(folder / "audio", SHARDS)
    benchmark.make_view(folder, 0.01)
    return folder


def dataset(output, rank, world_size):
    world, size = World(rank, world_size), GLOBAL_BATCH // world_size
    return StreamingDataset(remote=str(output / "audio"), view="kept", shuffle=True, world=world, batch_size=size)


def batches(output, world_size, indexes):
    """Samples of global batches, in the order of the ranks' rows."""
    runs = [dataset(output, rank, world_size).epochs.begin() for rank in range(world_size)]
    parts = [[run.plan(index).rows.sample_ids for run in runs] for index in indexes]
    return [np.stack(rows, 1).reshape(-1).tolist() for rows in parts]


@pytest.mark.medium
def test_global_batches_are_the_same_on_1_3_and_8_ranks(output):
    size = dataset(output, 0, 1).size
    assert abs(size - 100_000) < 2_000
    indexes = [0, 1, 777, size // GLOBAL_BATCH - 1]
    alone = batches(output, 1, indexes)
    assert batches(output, 3, indexes) == alone
    assert batches(output, 8, indexes) == alone


def test_the_rows_of_a_batch_are_chosen_samples(output):
    made = dataset(output, 0, 1)
    reader = made.reading.readers[0]
    samples = made.epochs.begin().plan(0).rows.sample_ids
    shards, rows = reader.find(samples)
    assert len(set(zip(shards.tolist(), rows.tolist(), strict=True))) == GLOBAL_BATCH
    assert rows.max() > 100  # rows of shards, not numbers among the ten chosen samples of a shard


def test_opening_takes_under_150_mb(output):
    """`benchmarks/views.py` measures the time."""
    process = psutil.Process()
    before = process.memory_info().rss
    made = dataset(output, 0, 1)
    made.epochs.begin().plan(0)
    assert process.memory_info().rss - before < 150 * MIB
