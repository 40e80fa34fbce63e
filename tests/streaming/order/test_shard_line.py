"""The line of a pass is the same laid out and asked for one shard."""

import numpy as np
import pytest

from headrace.streaming.order import shard_line
from headrace.streaming.order.shard_line import ShardLine

SIZES = np.random.default_rng(0).integers(0, 5, 103).astype(np.int32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(shard_line, "_BLOCK", 10)


@pytest.mark.parametrize("sizes", [SIZES, np.where(np.arange(103) % 9 == 8, SIZES, 3), np.full(103, 4)])
def test_the_start_of_a_single_shard_is_that_on_the_whole_line(sizes):
    asked, whole = ShardLine(sizes, 7), ShardLine(sizes, 7)
    starts = dict(zip(whole.numbers.tolist(), whole.starts[:-1].tolist(), strict=True))
    for shard in range(len(sizes)):
        for line in (asked, ShardLine(sizes, 7)):
            start, size = line.start_and_size(np.array([shard]))
            assert (start.tolist(), size.tolist()) == ([starts[shard]], [sizes[shard]])
    assert "starts" not in vars(asked)
    many, _ = asked.start_and_size(np.arange(len(sizes)))
    assert many.tolist() == [starts[shard] for shard in range(len(sizes))]


def test_a_single_shard_costs_the_nearer_half_of_the_order_and_that_once(monkeypatch):
    counted = []
    permute = shard_line.permute
    monkeypatch.setattr(shard_line, "permute", lambda at, *rest: [counted.append(len(at)), permute(at, *rest)][1])
    for shard in range(len(SIZES)):
        counted.clear()
        line = ShardLine(SIZES, 7)
        line.start_and_size(np.array([shard]))
        assert sum(counted) <= len(SIZES) // 2 + 2 * 10
        counted.clear()
        line.start_and_size(np.array([shard]))
        assert sum(counted) < 10


def test_a_shard_among_equal_ones_costs_no_order_of_others(monkeypatch):
    monkeypatch.setattr(shard_line, "permute", None)
    line = ShardLine(np.array([4] * 102 + [1]), 7)
    assert line.start_and_size(np.array([9]))[1].tolist() == [4]


def test_places_on_a_line_in_storage_order():
    line = ShardLine(np.array([2, 0, 3]))
    assert line.shards is None
    assert [part.tolist() for part in line.locate(np.arange(5))] == [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    assert [part.tolist() for part in line.start_and_size(np.array([2]))] == [[2], [3]]
