"""How long a file should be, by what its own headers say: truncation without decoding.

Owns the chunk walks of the containers that announce their length. libsndfile opens a cut file without complaint and
reports the frames that are left; this is what notices. It reads headers only and says nothing on damaged contents.
Lengths that a streaming writer leaves open (0, -1, or next to the largest that fits) are no truncation.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headrace.audio.forms import Reject
from headrace.errors import AudioError

_OPEN_ENDS = (1 << 31, 1 << 32, 1 << 63, 1 << 64)  # ffmpeg writes -1, sox and arecord about 2**31
_OPEN_MARGIN_BYTES = 1 << 16
_MAX_OGG_PAGE_BYTES = 65_307
_MAX_CHUNKS = 4096  # a walk through more than this is a walk through noise


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a container's chunks follow each other; `header` is the struct of a name and a size."""

    first_byte: int
    header: str
    align: int
    counts_header: bool = False


def check_whole(file: BinaryIO, num_bytes: int) -> None:
    """Refuse a file that is shorter than its container says; formats that do not say pass.

    Raises:
        AudioError: `truncated`, with the bytes expected and found.
    """
    file.seek(0)
    head = file.read(64)
    for magic, promised in _PROMISES:
        if head.startswith(magic):
            expected = promised(file, num_bytes)
            if expected is not None and expected > num_bytes:
                raise AudioError(
                    Reject.TRUNCATED,
                    f"cut off: its header promises at least {expected} bytes, the file has {num_bytes}; fetch it again",
                )
            return


def _riff(file: BinaryIO, num_bytes: int) -> int | None:
    """RIFF, RIFX, RF64 and BW64 (EBU Tech 3306): where the data chunk ends."""
    file.seek(0)
    order = ">" if file.read(4) == b"RIFX" else "<"
    size64 = None
    for name, start, size in _chunks(file, num_bytes, _Layout(12, order + "4sI", 2)):
        if name == b"ds64":
            file.seek(start + 8)
            size64 = _unpack("<Q", file)
        elif name == b"data":
            promised = size64 if size == 0xFFFFFFFF and size64 is not None else size
            return None if _is_open(promised) else start + promised
        if start + size > num_bytes:
            return start + size
    return None


def _w64(file: BinaryIO, num_bytes: int) -> int | None:
    """Sony Wave64: chunks with 16-byte names, whose 64-bit sizes count their own headers."""
    for name, start, size in _chunks(file, num_bytes, _Layout(40, "<16sQ", 8, counts_header=True)):
        if name.startswith(b"data"):
            return None if _is_open(size) else start + size
        if start + size > num_bytes:
            return start + size
    return None


def _aiff(file: BinaryIO, num_bytes: int) -> int | None:
    """AIFF and AIFF-C: where the SSND chunk ends."""
    for name, start, size in _chunks(file, num_bytes, _Layout(12, ">4sI", 2)):
        if name == b"SSND" and (size == 8 or _is_open(size)):  # 8: two fields, then nothing
            return None
        if start + size > num_bytes:
            return start + size
    return None


def _caf(file: BinaryIO, num_bytes: int) -> int | None:
    """Apple's Core Audio Format: where the data chunk ends."""
    for name, start, size in _chunks(file, num_bytes, _Layout(8, ">4sQ", 1)):
        if name == b"data" and _is_open(size):
            return None
        if start + size > num_bytes:
            return start + size
    return None


def _au(file: BinaryIO, num_bytes: int) -> int | None:
    """Sun's AU, either byte order: header size and data size are the two words after the magic."""
    del num_bytes
    file.seek(0)
    order = ">" if file.read(4) == b".snd" else "<"
    words = file.read(8)
    if len(words) < 8:
        return None
    header, size = struct.unpack(order + "II", words)
    return None if _is_open(size) else header + size


def _ogg(file: BinaryIO, num_bytes: int) -> int | None:
    """Ogg (RFC 3533): where the last page ends, by its own lacing table."""
    tail_start = max(0, num_bytes - _MAX_OGG_PAGE_BYTES)
    file.seek(tail_start)
    tail = file.read(_MAX_OGG_PAGE_BYTES)
    at = tail.rfind(b"OggS\x00")
    if at < 0:
        return None
    num_lacings = tail[at + 26] if at + 26 < len(tail) else 255
    lacings = tail[at + 27 : at + 27 + num_lacings]
    missing_lacings = num_lacings - len(lacings)
    return tail_start + at + 27 + num_lacings + sum(lacings) + missing_lacings


def _mp3(file: BinaryIO, num_bytes: int) -> int | None:
    """MPEG audio: the byte count of a Xing or Info frame, where the encoder wrote one."""
    del num_bytes
    file.seek(0)
    head = file.read(10)
    start = 0
    if head.startswith(b"ID3") and len(head) == 10:
        start = 10 + ((head[6] & 127) << 21 | (head[7] & 127) << 14 | (head[8] & 127) << 7 | head[9] & 127)
    file.seek(start)
    frame = file.read(192)
    for mark in (b"Xing", b"Info"):
        at = frame.find(mark, 4)
        if at >= 0 and len(frame) >= at + 16:
            flags, *counts = struct.unpack_from(">III", frame, at + 4)
            if flags & 2:
                return start + int(counts[flags & 1])
    return None


def _chunks(file: BinaryIO, num_bytes: int, layout: _Layout) -> Iterator[tuple[bytes, int, int]]:
    """Walk chunks: name, where the payload starts, its size. Ends at the file's end or where a name is noise."""
    header_bytes = struct.calcsize(layout.header)
    at = layout.first_byte
    for _ in range(_MAX_CHUNKS):
        file.seek(at)
        found = file.read(header_bytes)
        if len(found) < header_bytes or not _is_name(found[:4]):
            return
        name, size = struct.unpack(layout.header, found)
        if layout.counts_header and not _is_open(size):
            size = max(0, size - header_bytes)
        start = at + header_bytes
        yield name, start, size
        at = start + size
        at += -at % layout.align
        if at >= num_bytes:
            return


def _is_open(size: int) -> bool:
    """Whether a size says that its writer did not know."""
    return size == 0 or any(end - _OPEN_MARGIN_BYTES <= size <= end for end in _OPEN_ENDS)


def _is_name(name: bytes) -> bool:
    return name.isascii() and name.decode("ascii").isprintable()


def _unpack(layout: str, file: BinaryIO) -> int | None:
    data = file.read(struct.calcsize(layout))
    return int(struct.unpack(layout, data)[0]) if len(data) == struct.calcsize(layout) else None


_PROMISES: tuple[tuple[bytes, Callable[[BinaryIO, int], int | None]], ...] = (
    (b"RIFF", _riff),
    (b"RIFX", _riff),
    (b"RF64", _riff),
    (b"BW64", _riff),
    (b"riff", _w64),
    (b"FORM", _aiff),
    (b"caff", _caf),
    (b".snd", _au),
    (b"dns.", _au),
    (b"OggS", _ogg),
    (b"ID3", _mp3),
    (b"\xff\xfb", _mp3),
    (b"\xff\xfa", _mp3),
    (b"\xff\xf3", _mp3),
    (b"\xff\xf2", _mp3),
)
