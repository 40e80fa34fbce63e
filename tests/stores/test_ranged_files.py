"""Bytes that are read by ranges behave like a file that holds them."""

import io

import pytest

from headrace.stores.ranged_files import RawFile

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
