"""Ranges that readers fetched are kept for the download of their shard, whatever kills or damages their file."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.cache import coalesce, kept_ranges
from headrace.streaming.cache.kept_ranges import KeptRanges, keep_ranges, stored_bytes

CONTENT = np.random.default_rng(3).bytes(400)
SPANS = st.lists(
    st.tuples(st.integers(0, 399), st.integers(1, 200)).map(lambda s: (s[0], min(400, sum(s)))), max_size=8
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Ranges of any length count, and 100 bytes are the most of a record."""
    monkeypatch.setattr(kept_ranges, "_LEAST_BYTES", 1)
    monkeypatch.setattr(kept_ranges, "pieces", lambda start, stop: coalesce.pieces(start, stop, 100))


@pytest.fixture
def path(tmp_path):
    """The file of a shard that is expected."""
    (tmp_path / "ranges").touch()
    return tmp_path / "ranges"


def keep(path, *spans):
    keep_ranges(path, 400, [(span, memoryview(CONTENT[slice(*span)])) for span in spans])


def gaps(path, start=0, stop=400):
    """Ranges to fetch of a part of the shard; its kept bytes are compared."""
    with KeptRanges(path, 400) as kept:
        parts = list(kept.parts(start, stop))
    assert [part.start for part in parts] == [start, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == stop
    assert all(part.blob in {None, CONTENT[part.start : part.stop]} for part in parts)
    return [(part.start, part.stop) for part in parts if part.blob is None]


@given(spans=SPANS, window=SPANS.filter(len).map(lambda spans: spans[0]))
def test_exactly_what_is_not_kept_is_fetched(tmp_path_factory, spans, window):
    path = tmp_path_factory.mktemp("ranges") / "ranges"
    path.touch()
    for span in spans:
        keep(path, span)
    kept = {place for span in spans for place in range(*span)}
    missing = [place for span in gaps(path, *window) for place in range(*span)]
    assert missing == [place for place in range(*window) if place not in kept]


def test_a_reader_takes_what_one_range_has(path):
    keep(path, (100, 180))
    with KeptRanges(path, 400) as kept:
        assert kept.read(120, 180) == CONTENT[120:180]
        assert kept.read(120, 181) is None
        keep(path, (150, 190))  # by another process
        assert kept.read(160, 190) == CONTENT[160:190]


def test_what_is_kept_is_not_kept_again_and_its_size_is_known_before(path):
    keep(path, (0, 250))
    size = path.stat().st_size
    assert size == stored_bytes([((0, 250), memoryview(CONTENT[:250]))])
    keep(path, (50, 90))
    assert path.stat().st_size == size


def test_nothing_is_kept_of_a_shard_that_nobody_expects(tmp_path):
    keep(tmp_path / "ranges", (0, 10))
    assert not list(tmp_path.iterdir())
    assert gaps(tmp_path / "ranges") == [(0, 400)]


@pytest.mark.parametrize("num_lost", [1, 79, 80, 85, 100])
def test_what_a_killed_process_left_is_written_over(path, num_lost):
    """80 bytes of a range and 20 before them, of which the last are missing."""
    keep(path, (0, 80), (100, 180))
    os.truncate(path, path.stat().st_size - num_lost)
    assert gaps(path) == [(80, 400)]
    keep(path, (200, 210))
    keep(path, (300, 310))
    assert gaps(path) == [(80, 200), (210, 300), (310, 400)]


@pytest.mark.parametrize("place", [25, 60, 99])
def test_damaged_bytes_are_fetched(path, place):
    keep(path, (0, 80), (100, 180))
    blob = bytearray(path.read_bytes())
    blob[place] ^= 1
    path.write_bytes(blob)
    assert gaps(path) == [(0, 100), (180, 400)]


def test_a_file_of_zeros_keeps_nothing(path):
    path.write_bytes(bytes(1000))
    assert gaps(path) == [(0, 400)]
    keep(path, (0, 80))
    assert gaps(path) == [(80, 400)]


def test_short_ranges_are_not_worth_a_request_for_what_is_beside_them(path, monkeypatch):
    monkeypatch.setattr(kept_ranges, "_LEAST_BYTES", 60)
    keep(path, (0, 59), (100, 160))
    assert gaps(path) == [(0, 100), (160, 400)]
