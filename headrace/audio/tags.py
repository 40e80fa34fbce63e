"""Skips ID3v2 tags that are in front of a file other than MPEG audio.

Some programs write such tags before FLAC, WAV and AIFF. libsndfile skips them, but counts the audio differently in a
file and in memory. Every reader of this package therefore gets the file as if the tag were not there. The tags of MPEG
audio are left to `headrace.audio.mpeg`.
"""

import io
import os
from collections.abc import Callable
from typing import BinaryIO, cast

_HEAD_BYTES = 10
_SYNC_BYTES = 4


def id3_bytes(head: bytes) -> int:
    """Size of the ID3v2 tag that begins with these 10 bytes; 0 if they are not the header of one.

    >>> id3_bytes(b"ID3" + bytes([4, 0, 0, 0, 0, 1, 72]))
    210
    """
    if not head.startswith(b"ID3") or len(head) < _HEAD_BYTES or any(byte & 0x80 for byte in head[6:10]):
        return 0
    size = _HEAD_BYTES + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])
    return size + (_HEAD_BYTES if head[5] & 0x10 else 0)


def is_mpeg(head: bytes) -> bool:
    """Whether these 4 bytes can be the header of a frame of MPEG audio (ISO 11172-3, 2.4.1.3)."""
    if len(head) < _SYNC_BYTES or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer, bitrate, rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer != 0 and bitrate != 15 and rate != 3


def tag_bytes(file: BinaryIO) -> int:
    """Size of the ID3v2 tags before a recording; 0 if there are none, or if MPEG audio follows them.

    The position of the file is restored.
    """
    before = file.tell()
    try:
        return _skipped(lambda at, size: _read(file, at, size))
    finally:
        file.seek(before)


def behind_tag(file: BinaryIO) -> BinaryIO:
    """Return the file itself, or a view of it that begins behind its tags; see `tag_bytes`."""
    start = tag_bytes(file)
    return cast("BinaryIO", io.BufferedReader(_Rest(file, start))) if start else file


def without_tag(data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """Return the bytes themselves, or a view of those behind the tags; see `tag_bytes`."""
    start = _skipped(lambda at, size: bytes(data[at : at + size]))
    return memoryview(data)[start:] if start else data


def _skipped(read: Callable[[int, int], bytes]) -> int:
    """Size of the tags to skip, given a function that reads bytes at an offset."""
    at = 0
    while size := id3_bytes(read(at, _HEAD_BYTES)):
        at += size
    return 0 if at == 0 or is_mpeg(read(at, _SYNC_BYTES)) else at


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


class _Rest(io.RawIOBase):
    """A file from one of its bytes on. The position of the file itself is left as it is."""

    def __init__(self, file: BinaryIO, start: int) -> None:
        self._file = file
        self._start = start
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move. A position before the beginning becomes the beginning."""
        before = self._file.tell()
        end = self._file.seek(0, os.SEEK_END) - self._start
        self._file.seek(before)
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: end}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the name of a type that Python lacks
        before = self._file.tell()
        data = _read(self._file, self._start + self._at, len(buffer))
        self._file.seek(before)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
