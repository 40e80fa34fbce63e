"""Reads a gzip file from any of its bytes: the state of the decoder is kept every few megabytes."""

import zlib
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from headrace.sources.name_index import Kept
from headrace.sources.named_files import opened

_PIECE_BYTES = 64 << 10
_UNPACKED_BYTES = 1 << 20  # that are unpacked at a time, at most: a piece may become 64 MB
_APART_BYTES = 4 << 20
_GZIP = 31
_POINT_BYTES = 48 << 10  # about what a point takes in memory


class Point(NamedTuple):
    """A place in a gzip file: the next byte of the file, that of its content, and the decoder there.

    Between two gzip files in one there is no decoder.
    """

    packed: int
    unpacked: int
    decoder: Any


class GzipReader:
    """The content of a gzip file from a point on."""

    def __init__(self, file: BinaryIO, point: Point | None = None, points: list[Point] | None = None) -> None:
        """Read an open file from a point, or from its beginning.

        Args:
            file: the file.
            point: the point.
            points: gets the points that are passed; None keeps none.
        """
        self._file, self._points, self._buffer, self._rest = file, points, bytearray(), b""
        self._at, self._unpacked, decoder = point or Point(0, 0, None)
        self._decoder = decoder.copy() if decoder else zlib.decompressobj(_GZIP)
        file.seek(self._at)

    def read(self, num_bytes: int) -> bytes:
        """The next bytes; fewer at the end.

        Raises:
            OSError: the file is damaged, or ends early.
        """
        while len(self._buffer) < num_bytes and self._unpack():
            pass
        found = bytes(self._buffer[:num_bytes])
        del self._buffer[:num_bytes]
        return found

    def _unpack(self) -> bool:
        """Unpack a piece. Returns whether there was one. From a point on, the pieces are the same again."""
        self._pass_point()
        piece = self._rest or self._file.read(_PIECE_BYTES - self._at % _PIECE_BYTES)
        if self._decoder.eof:
            if not piece:
                return False
            self._decoder = zlib.decompressobj(_GZIP)  # another file after the first
        try:
            content = self._decoder.decompress(piece, _UNPACKED_BYTES)
        except zlib.error as error:
            raise OSError(f"the gzip file is damaged: {error}") from error
        if not (piece or content or self._decoder.eof):
            raise OSError("the gzip file ends early")
        self._rest = self._decoder.unused_data or self._decoder.unconsumed_tail
        self._at += len(piece) - len(self._rest)
        self._buffer += content
        self._unpacked += len(content)
        return True

    def _pass_point(self) -> None:
        if self._points is None or (self._points and self._unpacked - self._points[-1].unpacked < _APART_BYTES):
            return
        decoder = None if self._decoder.eof else self._decoder.copy()
        self._points.append(Point(self._at, self._unpacked, decoder))


_kept = Kept[bytes](len)


@dataclass(frozen=True, slots=True)
class Stretches:
    """The content of a gzip file, in stretches from each point to the next.

    Attributes:
        points: the points; the first is the beginning.
        end: the end of the content that is used; behind it the file may be damaged.
    """

    points: Sequence[Point]
    end: int

    @property
    def num_bytes(self) -> int:
        """About what the points take in memory."""
        return _POINT_BYTES * len(self.points)

    def read(self, file: str, stamp: Hashable, start: int, num_bytes: int) -> bytes:
        """Bytes of the content. The stretches around them are kept, for bytes that are read in order.

        Args:
            file: the file.
            stamp: changes when the file changes.
            start: the first byte.
            num_bytes: how many bytes there are.

        Raises:
            OSError: the file is damaged, or ends early.
        """
        first, last = self._number(start), self._number(start + num_bytes - 1)
        found = [
            _kept.of((file, stamp, number), partial(self._stretch, file, number)) for number in range(first, last + 1)
        ]
        start -= self.points[first].unpacked
        return b"".join(found)[start : start + num_bytes]

    def _number(self, byte: int) -> int:
        """The number of the stretch that has a byte."""
        return max(0, bisect_right(self.points, byte, key=lambda point: point.unpacked) - 1)

    def _stretch(self, file: str, number: int) -> bytes:
        start, *following = (point.unpacked for point in self.points[number : number + 2])
        with opened(file) as data:
            return GzipReader(data, self.points[number]).read(min([self.end, *following]) - start)
