"""Memory of batches: used again when nobody looks at it, and no more of it than a batch fills."""

import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.streaming.batches.arena import Arena

HUGE_PAGE = 2 << 20
SLACK = 1 << 16


def taken_by_filling(array):
    """Growth of the process's memory in the mappings of an array when it is filled."""
    before = resident_bytes(array)
    array[:] = 1
    return resident_bytes(array) - before


def resident_bytes(array):
    place = array.__array_interface__["data"][0]
    stop = place + array.nbytes
    total, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if not head.endswith(":"):
            start, end = (int(number, 16) for number in head.split("-"))
            is_ours = start < stop and end > place
        elif is_ours and head == "Rss:":
            total += int(line.split()[1]) << 10
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's smaps")
@pytest.mark.parametrize("num_pages", [1.2, 4.0, 13.46])
def test_a_batch_takes_no_more_memory_than_it_fills(num_pages):
    array = Arena().empty((int(num_pages * HUGE_PAGE),), np.uint8)
    assert array.nbytes - SLACK <= taken_by_filling(array) <= array.nbytes + SLACK


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's smaps")
def test_a_last_page_that_is_mostly_used_may_be_a_huge_one():
    array = Arena().empty((int(2.9 * HUGE_PAGE),), np.uint8)
    assert array.nbytes - SLACK <= taken_by_filling(array) <= 3 * HUGE_PAGE + SLACK


@pytest.mark.parametrize("num_bytes", [1 << 19, 5 * HUGE_PAGE + 3])
def test_memory_is_used_again_once_no_view_is_left(num_bytes):
    arena = Arena()
    array = arena.empty((num_bytes,), np.uint8)
    place, view = array.__array_interface__["data"][0], array[10:20]
    view[:] = 7
    del array
    other = arena.empty((num_bytes,), np.uint8)
    other[:] = 0
    assert other.__array_interface__["data"][0] != place
    assert (view == 7).all()
    del view
    assert arena.empty((num_bytes,), np.uint8).__array_interface__["data"][0] == place


def test_memory_that_cannot_be_had_is_a_memory_error():
    with pytest.raises(MemoryError, match=r"Unable to allocate|no memory for 1,125,899,907 MB of a batch"):
        Arena().empty((1 << 50,), np.uint8)
