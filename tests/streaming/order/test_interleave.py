"""Units of several streams in one sequence: all of them, each stream in its order, in proportion everywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.order.interleave import Interleave

COUNTS = st.integers(1, 5).flatmap(
    lambda num_streams: st.lists(st.lists(st.integers(0, 90), min_size=num_streams, max_size=num_streams), min_size=1)
)


def units_of(counts):
    """Slot and unit of everything, in one call as a batch of several canonical nodes is."""
    sizes = counts.sum(axis=0)
    return np.repeat(np.arange(len(sizes)), sizes), np.concatenate([np.arange(size) for size in sizes])


@pytest.mark.medium
@given(COUNTS, st.integers(0, 2**64 - 1))
@settings(max_examples=30)
def test_each_stream_gives_all_its_units_in_order_and_they_are_counted_in_closed_form(per_slot, key):
    counts = np.array(per_slot, np.int64).T
    interleave = Interleave(counts, key)
    slots, units = units_of(counts)
    streams, numbers = interleave.locate(slots, units)
    for slot, size in enumerate(counts.sum(axis=0)):
        own, number = streams[slots == slot], numbers[slots == slot]
        taken = np.arange(len(counts))[:, None] == own
        for stream in range(len(counts)):
            assert np.array_equal(number[own == stream], np.arange(counts[stream, slot]))
        before = np.concatenate([np.zeros((len(counts), 1), np.int64), taken.cumsum(axis=1)], axis=1)
        edges = np.arange(size + 1)
        assert np.array_equal(interleave.num_before(np.full(size + 1, slot), edges), before)
        wanted = counts[:, slot, None] * edges / max(size, 1)
        assert (np.abs(before - wanted) < 2 * max(16, 4 * len(counts))).all()


def test_units_are_located_alike_alone_and_together():
    counts = np.array([[70, 5, 40], [31, 0, 2]])
    interleave = Interleave(counts, 7)
    slots, units = units_of(counts)
    together = np.array(interleave.locate(slots, units))
    alone = [interleave.locate(slots[n : n + 1], units[n : n + 1]) for n in range(len(units))]
    assert np.array_equal(together, np.concatenate(alone, axis=1))


def test_slots_are_limited_so_that_products_fit_64_bits():
    """A window has 16 units, so that U units are U // 16 windows, and two more for the rounding."""
    first = next(units for units in range(12_148_001_900, 12_148_002_100) if units * (units // 16 + 2) >= 2**63)
    Interleave(np.array([[first - 2], [1]]), 0)
    with pytest.raises(ConfigError, match=f"{first} samples of several streams in one canonical node are too many"):
        Interleave(np.array([[first - 1], [1]]), 0)
    Interleave(np.array([[10**11]]), 0)  # one stream needs no windows
