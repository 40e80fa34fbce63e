"""Rows that are opened next are kept when their neighbours are decoded, within a bound of bytes."""

import pytest

from headrace.sources import rows_ahead
from headrace.sources.rows_ahead import RowsAhead, announce

TIMES = (1, 2)
CHUNK = 10  # rows


class Reader:
    """Rows of 10 bytes, 10 to a chunk, that are opened in an order."""

    def __init__(self, order):
        self.ahead = RowsAhead((("a", number), 10) for number in order)
        self.decoded = []

    def open(self, number, times=TIMES):
        start = number - number % CHUNK
        chunk = range(start, start + CHUNK)
        return self.ahead.value(("a", number), times, chunk, lambda: self._decode(chunk))

    def _decode(self, chunk):
        self.decoded.append(chunk.start)
        return [b"row %06d" % number for number in chunk]


@pytest.fixture(autouse=True)
def small_window(monkeypatch):
    monkeypatch.setattr(rows_ahead, "_AHEAD_BYTES", 300)
    monkeypatch.setattr(rows_ahead, "_BEHIND_BYTES", 100)


def test_rows_that_are_opened_in_any_order_are_decoded_once_a_window():
    order = [number * 7 % 30 for number in range(30)]
    reader = Reader(order)
    assert [reader.open(number) for number in order] == [b"row %06d" % number for number in order]
    assert sorted(reader.decoded) == [0, 10, 20]


def test_only_rows_within_the_window_are_kept():
    order = [number * 7 % 1000 for number in range(1000)]
    reader = Reader(order)
    most = 0
    for number in order:
        reader.open(number)
        most = max(most, len(reader.ahead._kept))
    assert 10 < most <= (300 + 100) / 10 + 1


def test_a_row_that_is_opened_again_or_a_little_late_is_still_there():
    reader = Reader([0, 1, 11, 12, 21])
    assert reader.open(0) == reader.open(0)
    reader.open(21)
    assert reader.open(12) == b"row 000012"
    assert reader.open(1) == b"row 000001"
    assert reader.decoded == [0, 20, 10]


def test_a_row_that_is_not_expected_or_long_past_is_left_to_the_caller():
    reader = Reader([*range(5), *range(100, 130)])
    assert reader.open(7) is None
    reader.open(129)
    assert reader.open(0) is None
    assert reader.decoded == [120]


def test_values_of_a_file_with_other_times_are_not_given():
    reader = Reader([0, 1])
    reader.open(0)
    reader.open(1, (3, 4))
    assert reader.decoded == [0, 0]


def test_a_chunk_that_cannot_be_decoded_is_an_error_each_time():
    ahead = RowsAhead([(("a", 0), 10)])

    def fail():
        raise OSError("damaged")

    for _ in range(2):
        with pytest.raises(OSError, match="damaged"):
            ahead.value(("a", 0), TIMES, range(1), fail)


def test_only_sources_that_read_ahead_are_told_and_only_of_recordings():
    class Source:
        told = ()

        def will_open(self, recordings):
            self.told += (recordings,)

    source = Source()
    announce(source, [])
    announce(source, [("a", 1)])
    announce(object(), [("a", 1)])
    assert source.told == ([("a", 1)],)
