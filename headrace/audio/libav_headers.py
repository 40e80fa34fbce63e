"""Finds the end that the headers of MP4, Matroska and ASF promise, without decoding: a shorter file is truncated."""

from collections.abc import Callable
from typing import BinaryIO

_MOST_BOXES = 1 << 16
_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")  # of ASF, section 3.2
_ASF_HEAD_BYTES = 1 << 16
_SEGMENT = 0x18538067  # of Matroska (RFC 9559, section 5.1)


def mp4_end(file: BinaryIO, num_bytes: int, _unknown: Callable[[int], bool]) -> int | None:
    """End of the last box at the top level of an MP4; None if one reaches to the end of the file."""
    at = 0
    for _ in range(_MOST_BOXES):
        file.seek(at)
        head = file.read(16)
        if at >= num_bytes or len(head) < 8 or not head[4:8].isascii():  # no box, but what some program appended
            break
        size = int.from_bytes(head[:4], "big")
        size = int.from_bytes(head[8:16], "big") if size == 1 else size
        if size < 8:  # 0: to the end of the file
            return None
        at += size
    return at


def matroska_end(file: BinaryIO, _num_bytes: int, _unknown: Callable[[int], bool]) -> int | None:
    """End of the segment of a Matroska file; None if its writer did not know it."""
    at = 4
    size, at = _sized(file, at)
    file.seek(at + (size or 0))
    if int.from_bytes(file.read(4), "big") != _SEGMENT:
        return None
    size, start = _sized(file, at + (size or 0) + 4)
    return None if size is None else start + size


def _sized(file: BinaryIO, at: int) -> tuple[int | None, int]:
    """A size as a variable-length integer (RFC 8794, section 4), None if all its bits are 1; and the byte after it."""
    file.seek(at)
    head = file.read(8)
    length = 9 - head[0].bit_length() if head else 9
    if len(head) < length:
        return None, at
    bits = (1 << 7 * length) - 1
    size = int.from_bytes(head[:length], "big") & bits
    return (None if size == bits else size), at + length


def asf_end(file: BinaryIO, _num_bytes: int, _unknown: Callable[[int], bool]) -> int | None:
    """Size of an ASF file, as its header says; None for a broadcast, which has none."""
    file.seek(0)
    head = file.read(_ASF_HEAD_BYTES)
    at = head.find(_FILE_PROPERTIES)
    if at < 0 or len(head) < at + 92:
        return None
    is_broadcast = head[at + 88] & 1
    return None if is_broadcast else int.from_bytes(head[at + 40 : at + 48], "little")
