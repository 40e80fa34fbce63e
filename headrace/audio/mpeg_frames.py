"""Finds the MP3 frames that hold some samples by the sizes in their headers, and decodes these alone.

A frame takes bytes from frames before it (at most 511, the reservoir), and overlaps with the frame before it. So the
decoder begins `_PRE_ROLL` frames earlier, and has the values of a whole decode then. Only files that are one stream of
frames without a gap are read here; the count of frames in their Info header has to fit what is known of the file.
"""

from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from headrace.audio.member_file import MemberFile
from headrace.audio.mpeg import FrameKind, FrameScanner, InfoHeader, kind_of
from headrace.audio.parts import FilePart, open_parts
from headrace.audio.tags import id3_bytes

_PRE_ROLL = 16  # frames: 511 bytes of reservoir, at least 60 in a frame, and the overlaps
_DECODER_DELAY = 529
_LAME_AT = 21  # 12 bits of delay, 12 bits of padding
_PIECE_BYTES = 1 << 20
_MARKS = (b"Xing", b"Info", b"VBRI")
_MOST_FRAME_BYTES = 1445


def decode_mpeg(file: MemberFile, facts: tuple[int, int], out: npt.NDArray[np.float32], start: int) -> bool:
    """Decode samples from `start` on into `out` (channels, samples).

    Args:
        file: an MPEG audio file.
        facts: samples of each channel that a whole decode has, and their rate in Hz.
        out: float32 (channels, samples), any strides; it is filled with the values of the whole decode.
        start: number of the first sample.

    Returns:
        False if the file has to be decoded whole; then `out` may hold anything.
    """
    begin = 0
    while size := id3_bytes(bytes(file.part(begin, begin + 10))):
        begin += size
    scanner = FrameScanner(cast("BinaryIO", file), file.num_bytes)
    kind = scanner.kind_at(begin)
    if kind is None or kind.layer != 3 or (kind.sample_rate_hz, kind.num_channels) != (facts[1], len(out)):
        return False
    info = scanner.info(begin, kind)
    if (skipped := _skipped(info, kind, facts[0])) is None:
        return False
    begin += 0 if info is None else kind.num_bytes
    per_frame, first_sample = kind.samples_per_frame, start + skipped
    first = max(0, first_sample // per_frame - _PRE_ROLL)
    last = -(-(first_sample + out.shape[1]) // per_frame)
    walk = _Walk(file, begin, has_info=info is not None)
    from_byte, to_byte = walk.byte_of(first), walk.byte_of(last)
    if from_byte is None or to_byte is None:
        return False
    samples = _decoded(file, (from_byte, to_byte), last - first, per_frame)
    skip = first_sample - first * per_frame
    if len(samples) < skip + out.shape[1]:
        return False
    out[:] = samples[skip : skip + out.shape[1]].T
    return True


def _skipped(info: InfoHeader | None, kind: FrameKind, num_frames: int) -> int | None:
    """Samples that a decoder leaves out at the beginning; None if length and Info header do not fit."""
    if info is None:
        return None if num_frames % kind.samples_per_frame else 0
    if not info.head or info.num_frames is None:
        return None
    trimmed = int.from_bytes(info.lame[_LAME_AT : _LAME_AT + 3], "big") if len(info.lame) >= _LAME_AT + 3 else 0
    delay, padding = trimmed >> 12, trimmed & 0xFFF
    skipped = delay + _DECODER_DELAY
    all_samples = num_frames + skipped + max(0, padding - _DECODER_DELAY)
    count, rest = divmod(all_samples, kind.samples_per_frame)
    return skipped if not rest and abs(count - info.num_frames) <= 1 else None


def _decoded(file: MemberFile, span: tuple[int, int], count: int, per_frame: int) -> npt.NDArray[np.float32]:
    part = FilePart((span,), num_bytes=(count + 2) * _MOST_FRAME_BYTES, num_frames=count * per_frame)
    with open_parts(cast("BinaryIO", file), [part]) as sound:
        return cast("npt.NDArray[np.float32]", sound.read(count * per_frame, "float32"))


class _Walk:
    """Walks over the headers of frames."""

    def __init__(self, file: MemberFile, begin: int, *, has_info: bool) -> None:
        self._file = file
        self._has_info = has_info
        self._at, self._number = begin, 0
        head = int.from_bytes(file.part(begin, begin + 4), "big")
        self._second = head >> 16 & 0xFF | 1
        kinds = [kind_of(head & 0xFF00FF | third << 8) for third in range(256)]
        rate = head >> 10 & 3
        self._sizes = [kind.num_bytes if kind and third >> 2 & 3 == rate else 0 for third, kind in enumerate(kinds)]

    def byte_of(self, number: int) -> int | None:
        """First byte of a frame, not before the last one; None where there is no frame, or another stream begins."""
        while self._number < number:
            start = self._at
            piece = bytes(self._file.part(start, start + _PIECE_BYTES))
            if not self._steps(piece, number) or (not self._has_info and any(mark in piece for mark in _MARKS)):
                return None
        return self._at

    def _steps(self, piece: bytes, number: int) -> bool:
        """Walk through a piece that begins at the current frame. Returns whether all is frames, and at least one."""
        at, count, wanted = 0, 0, number - self._number
        sizes, second, stop = self._sizes, self._second, len(piece) - 3
        while count < wanted and at < stop:
            size = sizes[piece[at + 2]]
            if piece[at] != 0xFF or piece[at + 1] | 1 != second or not size:
                return False
            at += size
            count += 1
        self._at += at
        self._number += count
        return count > 0 and self._at <= self._file.num_bytes
