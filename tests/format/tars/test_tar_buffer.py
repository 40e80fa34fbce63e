"""Tests of `headrace.format.tars.tar_buffer`."""

import io
import zlib

from headrace.format.tars.tar_buffer import TarBuffer


def test_collected_pieces_are_read_as_one_file():
    collected = TarBuffer()
    pieces = [b"abc", b"", b"defgh", b"i" * 20_000, b"jk"]
    for piece in pieces:
        collected.write(piece)
    whole, file = b"".join(pieces), collected.opened()
    assert file.read() == whole
    for start, count in [(0, 4), (2, 1), (3, 0), (5, 20_010), (len(whole) - 1, 9), (len(whole) + 5, 3)]:
        file.seek(start)
        assert file.read(count) == whole[start : start + count]
    assert file.seek(-2, io.SEEK_END) == len(whole) - 2
    assert file.read() == b"jk"
    for start, stop in [(0, 0), (0, 4), (2, 3), (3, 3), (5, 20_010), (0, len(whole)), (len(whole) - 1, len(whole) + 9)]:
        assert collected.crc32((start, stop)) == zlib.crc32(whole[start:stop])
