"""Bytes that are read by ranges behave like a file that holds them."""

import contextlib
import io

import pytest

from headrace.errors import NotFoundError
from headrace.stores.ranged_files import RawFile, _RangedFile, opened_sparsely, will_read
from headrace.stores.web_objects import NoRangesError

CONTENT = bytes(range(200))


class InMemory(RawFile):
    """Some bytes, of which each read gives at most seven."""

    def __init__(self):
        super().__init__(len(CONTENT))
        self.asked = []

    def read_at(self, start, stop):
        self.asked.append((start, stop))
        return CONTENT[start : min(stop, start + 7)]


@pytest.mark.parametrize("steps", [[(0, 0, 50)], [(190, 0, 50), (-3, 1, 2)], [(-5, 2, 9), (500, 0, 4), (0, 0, 1)]])
def test_it_reads_and_seeks_as_a_file_in_memory(steps):
    file, expected = io.BufferedReader(InMemory(), 16), io.BytesIO(CONTENT)
    assert file.readable()
    assert file.seekable()
    for offset, whence, count in steps:
        assert file.seek(offset, whence) == expected.seek(offset, whence)
        assert (file.read(count), file.tell()) == (expected.read(count), expected.tell())


def test_nothing_is_asked_for_behind_the_end():
    file = InMemory()
    file.seek(195)
    assert file.readinto(bytearray(50)) == 5
    assert file.readinto(bytearray(50)) == 0
    assert file.asked == [(195, 200)]


def test_a_file_whose_size_is_not_to_be_had_can_be_closed():
    """Python closes each file object that it deletes, also one that was never made; from 3.13 on it prints errors."""

    class Gone:
        def size(self, path):
            raise NotFoundError(path)

    file = _RangedFile.__new__(_RangedFile)
    with pytest.raises(NotFoundError):
        file.__init__(Gone(), "a.tar")
    file.close()


LARGE = bytes(n // 256 for n in range(1 << 16))


class Store:
    """A store of one object that notes what it is asked for; without `has_ranges` it answers with the whole object."""

    def __init__(self, *, has_ranges=True):
        self.has_ranges, self.asked = has_ranges, []

    def size(self, path):
        return len(LARGE)

    def read_ranges(self, path, ranges):
        self.asked.append(list(ranges))
        if not self.has_ranges:
            raise NoRangesError(path)
        return [LARGE[start:stop] for start, stop in ranges]

    @contextlib.contextmanager
    def streamed(self, path):
        yield io.BytesIO(LARGE)

    def retried(self, path, once):
        return once()


def read(file, start, num_bytes):
    file.seek(start)
    return file.read(num_bytes)


def test_parts_that_will_be_read_are_requested_at_once_and_others_when_they_are_read():
    store = Store()
    file = opened_sparsely(store, "a", 100)
    parts = [(start, start + 50) for start in range(0, 20_000, 200)]
    will_read(file, parts)
    for start in (1000, 1200, 10_000, 1001):  # what comes before the first read is not requested
        assert read(file, start, 40) == LARGE[start : start + 40]
    assert store.asked == [parts[5:69]]
    assert read(file, 60_000, 20) == LARGE[60_000:60_020]
    assert read(file, 0, 50) == LARGE[:50]
    assert store.asked[1:] == [[(60_000, len(LARGE))], [*parts[:5], *parts[69:]][:64]]
    assert read(file, 1040, 30) == LARGE[1040:1070]


def test_the_last_part_goes_to_a_near_end():
    store = Store()
    file = opened_sparsely(store, "a", 100)
    will_read(file, [(100, 200), (60_000, 60_100)])
    assert (read(file, 100, 90), read(file, len(LARGE) - 9, 9)) == (LARGE[100:190], LARGE[-9:])
    assert store.asked == [[(100, 200), (60_000, len(LARGE))]]


def test_a_server_without_ranges_is_asked_once_for_parts():
    store = Store(has_ranges=False)
    file = opened_sparsely(store, "a", 100)
    will_read(file, [(start, start + 50) for start in range(0, 20_000, 200)])
    assert [read(file, start, 50) for start in (400, 800, 30_000)] == [LARGE[s : s + 50] for s in (400, 800, 30_000)]
    assert [len(asked) for asked in store.asked] == [64, 1]


def test_other_files_need_no_parts():
    file = io.BytesIO(LARGE)
    will_read(file, [(0, 5)])
    assert file.read(3) == LARGE[:3]
