"""Checks that an audio file is as long as its headers say, without decoding it.

libsndfile opens a truncated file without an error, and reports the frames that are left. It also ignores audio after
the length in a header that was not updated when the recording ended, or that cannot count more than 4 GB. The check
finds both. It reads the chunk headers of WAV, AIFF, AU, CAF and Wave64 only; damaged audio is not found. A length that
a streaming writer left open (0, -1, or close to the largest possible number) is not checked.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from headrace.audio.forms import AudioReject
from headrace.errors import AudioError

_OPEN_ENDS = (1 << 31, 1 << 32, 1 << 63, 1 << 64)  # ffmpeg writes -1, sox and arecord about 2**31
_OPEN_MARGIN_BYTES = 1 << 16
_MAX_CHUNKS = 4096  # more chunks than this are noise
_STRAY_BYTES = 4096  # accepted after the audio without being a chunk: padding to a sector, or a stray tag


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a container's chunks.

    Attributes:
        first_byte: offset of the first chunk.
        header: `struct` format of a chunk's name and size.
        align: chunks begin at multiples of this, in bytes.
        counts_header: whether a chunk's size includes its header.
    """

    first_byte: int
    header: str
    align: int
    counts_header: bool = False


_IFF = _Layout(12, ">4sI", 2)
_CAF = _Layout(8, ">4sQ", 1)


def check_whole(file: BinaryIO, num_bytes: int) -> None:
    """Check that a file is neither shorter nor longer than its container says. Containers without a length pass.

    Raises:
        AudioError: `truncated` or `undecodable`, with the expected and the found number of bytes.
    """
    file.seek(0)
    head = file.read(64)
    for magic, promised in _PROMISES:
        if head.startswith(magic):
            expected = promised(file, num_bytes)
            if expected is not None and expected > num_bytes:
                raise AudioError(
                    AudioReject.TRUNCATED,
                    f"truncated: its header promises at least {expected} bytes, the file has {num_bytes}; fetch it "
                    "again",
                )
            return


def _riff(file: BinaryIO, num_bytes: int) -> int | None:
    """End of the data chunk in RIFF, RIFX, RF64 and BW64 (EBU Tech 3306); None if the length is open."""
    file.seek(0)
    order = ">" if file.read(4) == b"RIFX" else "<"
    size64 = None
    layout = _Layout(12, order + "4sI", 2)
    for name, start, size in _chunks(file, num_bytes, layout):
        if name == b"ds64":
            file.seek(start + 8)
            size64 = _unpack("<Q", file)
        elif name == b"data":
            promised = size64 if size == 0xFFFFFFFF and size64 is not None else size
            return None if _is_open(promised) else _end(file, num_bytes, start + promised, layout)
        if start + size > num_bytes:
            return start + size
    return None


def _w64(file: BinaryIO, num_bytes: int) -> int | None:
    """End of the data chunk in Sony Wave64, whose chunks have 16-byte names; None if the length is open."""
    for name, start, size in _chunks(file, num_bytes, _Layout(40, "<16sQ", 8, counts_header=True)):
        if name.startswith(b"data"):
            return None if _is_open(size) else start + size
        if start + size > num_bytes:
            return start + size
    return None


def _aiff(file: BinaryIO, num_bytes: int) -> int | None:
    """End of the SSND chunk in AIFF and AIFF-C; None if the length is open."""
    for name, start, size in _chunks(file, num_bytes, _IFF):
        if name == b"SSND":
            is_open = size == 8 or _is_open(size)  # 8: two fields, then nothing
            return None if is_open else _end(file, num_bytes, start + size, _IFF)
        if start + size > num_bytes:
            return start + size
    return None


def _caf(file: BinaryIO, num_bytes: int) -> int | None:
    """End of the data chunk in Apple's Core Audio Format; None if the length is open."""
    for name, start, size in _chunks(file, num_bytes, _CAF):
        if name == b"data":
            return None if _is_open(size) else _end(file, num_bytes, start + size, _CAF)
        if start + size > num_bytes:
            return start + size
    return None


def _au(file: BinaryIO, num_bytes: int) -> int | None:
    """End of the audio in Sun's AU, in either byte order; None if the length is open."""
    file.seek(0)
    order = ">" if file.read(4) == b".snd" else "<"
    words = file.read(8)
    if len(words) < 8:
        return None
    header, size = struct.unpack(order + "II", words)
    return None if _is_open(size) else _end(file, num_bytes, header + size, None)


def _end(file: BinaryIO, num_bytes: int, audio_stop: int, layout: _Layout | None) -> int:
    """End of what the headers promise: of the audio, or of a chunk after it.

    Raises:
        AudioError: `undecodable`: many bytes after the audio are not in a chunk.
    """
    at = audio_stop
    if layout is not None:
        at += -at % layout.align
        for _, start, size in _chunks(file, num_bytes, replace(layout, first_byte=at)):
            if start + size > num_bytes:
                return start + size if num_bytes - at > _STRAY_BYTES else audio_stop
            at = start + size
            at += -at % layout.align
    if num_bytes - at > _STRAY_BYTES:
        raise AudioError(
            AudioReject.UNDECODABLE,
            f"its header promises audio up to byte {audio_stop}, and {num_bytes - at} bytes follow that are not in a "
            "chunk: perhaps the header was not updated when the recording ended; repair it (ffmpeg -ignore_length 1 "
            "-i OLD NEW, or sox --ignore-length OLD NEW)",
        )
    return audio_stop


def _chunks(file: BinaryIO, num_bytes: int, layout: _Layout) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and size of each chunk's content, up to the end of the file or to an invalid name."""
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
    """Whether a size means that its writer did not know it."""
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
)
