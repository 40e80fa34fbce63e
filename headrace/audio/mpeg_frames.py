"""Finds the MP3 frames that hold some samples by the sizes in their headers, and decodes these alone.

A frame takes bytes from frames before it (at most 511, the reservoir), and overlaps with the frame before it. So the
decoder begins some frames earlier, and has the values of a whole decode then. Only files that are one stream of
frames without a gap are read here; the count of frames in their Info header has to fit what is known of the file.
"""

import io
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from headrace.audio.member_file import MemberFile
from headrace.audio.mpeg import FrameKind, FrameScanner, InfoHeader, kind_of
from headrace.audio.parts import FilePart, open_parts
from headrace.audio.seek_points import Coding, SeekPoints, growing
from headrace.audio.tags import id3_bytes

_RESERVOIR_BYTES = 511
_OVERLAPPING = 2  # frames whose sound is in that of the next one: windows and the filter bank
_TURN = 16  # frames after which the decoder's filter bank, of 16 slots, adds up in the same order
_HEAD_BYTES = 6  # header and CRC, which most frames do not have
_MOST_HEAD_BYTES = _HEAD_BYTES + 32  # with the side information
_DECODER_DELAY = 529
_LAME_AT = 21  # 12 bits of delay, 12 bits of padding
_PIECE_BYTES = 1 << 20
_MARKS = (b"Xing", b"Info", b"VBRI")
_MOST_FRAME_BYTES = 1445
_SPARE_FRAMES = 2  # by which frames may be larger than those beside them


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
    if (stream := _Stream.of(file, facts[0])) is None or stream.kind.num_channels != len(out):
        return False
    if stream.kind.sample_rate_hz != facts[1]:
        return False
    frames = stream.frames(file, start, out.shape[1])
    return frames is not None and frames.decode(out)


def decode_mpeg_at(
    file: MemberFile, form: tuple[int, int], points: SeekPoints, out: npt.NDArray[np.float32], start: int
) -> bool:
    """Decode samples as `decode_mpeg`, whose bytes seek points give: in one read, unless frames differ much in size."""
    stop = start + out.shape[1] + _spare(points)
    for number in _points_before(points, start):
        for blob in growing(file, int(points.places[number]), points.ends(stop, file.num_bytes)):
            kind = kind_of(int.from_bytes(blob[1:4], "big")) if blob[0] == 0xFF else None
            if kind is None or kind.layer != 3 or (kind.sample_rate_hz, kind.num_channels) != form:
                return False
            stream = _Stream(kind, 0, -points.frame(number), has_info=True, is_whole=not number)
            frames = stream.frames(MemberFile(partial(_cut, blob), len(blob), len(blob)), start, out.shape[1])
            if frames is not None:
                break
        else:
            return False
        if frames.are_enough:
            return frames.decode(out)
    return False


def mpeg_spans(points: SeekPoints, stretch: tuple[int, int], num_bytes: int) -> list[tuple[int, int]]:
    """Bytes that `decode_mpeg_at` probably reads for samples [start, stop) of a file."""
    begin = int(points.places[next(_points_before(points, stretch[0]))])
    return [(begin, next(points.ends(stretch[1] + _spare(points), num_bytes)))]


def _spare(points: SeekPoints) -> int:
    return _SPARE_FRAMES * points.step // _TURN


def mpeg_points(file: MemberFile, num_samples: int) -> SeekPoints | None:
    """Places of every 16th frame, found from all headers of a file; None for files that are decoded whole."""
    if (stream := _Stream.of(file, num_samples)) is None:
        return None
    per_frame = stream.kind.samples_per_frame
    walk = _Walk(file, stream.begin, has_info=stream.has_info)
    if not walk.reaches(-(-(num_samples + stream.skipped) // per_frame)):
        return None
    return SeekPoints(Coding.MPEG, -stream.skipped, _TURN * per_frame, np.array(walk.starts[:-1:_TURN], np.int64))


class _Stream(NamedTuple):
    """The frames of a file.

    Attributes:
        kind: facts of the first frame.
        begin: the byte at which it begins.
        skipped: samples that a decoder leaves out at the beginning.
        has_info: whether an Info header is before it.
        is_whole: whether no frame is before it.
    """

    kind: FrameKind
    begin: int
    skipped: int
    has_info: bool
    is_whole: bool = True

    @classmethod
    def of(cls, file: MemberFile, num_samples: int) -> "_Stream | None":
        """The frames of an MP3 file; None where its Info header does not fit its samples, or for other files."""
        begin = 0
        while size := id3_bytes(bytes(file.part(begin, begin + 10))):
            begin += size
        scanner = FrameScanner(cast("BinaryIO", file), file.num_bytes)
        kind = scanner.kind_at(begin)
        if kind is None or kind.layer != 3:
            return None
        info = scanner.info(begin, kind)
        if (skipped := _skipped(info, kind, num_samples)) is None:
            return None
        return cls(kind, begin + (0 if info is None else kind.num_bytes), skipped, has_info=info is not None)

    def frames(self, file: MemberFile, start: int, count: int) -> "_Frames | None":
        """The frames of some samples; None if they are not one after the other in the file."""
        walk, first = _Walk(file, self.begin, has_info=self.has_info), start + self.skipped
        last = -(-(first + count) // self.kind.samples_per_frame)
        return _Frames(file, self, walk.starts, first) if walk.reaches(last) else None


def _cut(blob: bytes, start: int, stop: int) -> memoryview:
    return memoryview(blob)[start:stop]


def _points_before(points: SeekPoints, start: int) -> Iterator[int]:
    """The last point from which on a sample's frame probably finds the bytes that it takes, and those before it."""
    before = start - _OVERLAPPING * points.step // _TURN
    number = points.at(before)
    behind = int(points.places[min(number + 1, len(points.places) - 1)] - points.places[number])
    share = (before - points.frame(number)) / points.step
    if number and behind * share - _TURN * share * _MOST_HEAD_BYTES < 2 * _RESERVOIR_BYTES:
        number -= 1
    yield from range(number, -1, -1)


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


def _decoded(stream: bytearray, count: int, per_frame: int) -> npt.NDArray[np.float32]:
    span = (0, len(stream))
    part = FilePart((span,), num_bytes=(count + 2) * _MOST_FRAME_BYTES, num_frames=count * per_frame)
    with open_parts(io.BytesIO(stream), [part]) as sound:
        return cast("npt.NDArray[np.float32]", sound.read(count * per_frame, "float32"))


class _Frames:
    """Frames of some samples, and those that they need, which are before them."""

    def __init__(self, file: MemberFile, stream: _Stream, starts: Sequence[int], first_sample: int) -> None:
        """Take the first byte of each frame of the stream up to the last one, and of what is behind it."""
        side_bytes = (32, 17) if stream.kind.num_channels == 2 else (17, 9)
        self._side_bytes = side_bytes[0 if stream.kind.is_mpeg_1 else 1]
        self._begin_bits = 9 if stream.kind.is_mpeg_1 else 8
        self._file, self._stream, self._starts, self._first_sample = file, stream, starts, first_sample
        self._first, lacking = self._before(first_sample // stream.kind.samples_per_frame)
        self.are_enough = stream.is_whole or not lacking

    def decode(self, out: npt.NDArray[np.float32]) -> bool:
        """Fill `out` (channels, samples). Returns False if there are fewer samples."""
        first, last, per_frame = self._first, len(self._starts) - 1, self._stream.kind.samples_per_frame
        blob = bytearray(self._file.part(self._starts[first], self._starts[last]))
        if first or not self._stream.is_whole:
            self._silence(blob, first)
        samples = _decoded(blob, last - first, per_frame)
        skip = self._first_sample - first * per_frame
        if len(samples) < skip + out.shape[1]:
            return False
        out[:] = samples[skip : skip + out.shape[1]].T
        return True

    def _before(self, number: int) -> tuple[int, bool]:
        """The frame from which a decoder has all that a frame takes from others, and adds up in the same order.

        Also whether bytes are lacking, because they are before the first frame.
        """
        is_near = number < _OVERLAPPING
        number, left = max(0, number - _OVERLAPPING), _RESERVOIR_BYTES
        while number and left > 0:
            number -= 1
            left -= max(0, self._starts[number + 1] - self._starts[number] - _HEAD_BYTES - self._side_bytes)
        return number // _TURN * _TURN, left > 0 or is_near

    def _silence(self, stream: bytearray, first: int) -> None:
        """Make frames silent that take bytes from before the stream; libsndfile would complain, and lose their time.

        Args:
            stream: some frames, which begin with frame `first`. What is behind their heads stays, for those that
                follow; and the number of bytes that they take stays, as far as there are bytes.
            first: number of the first frame.
        """
        available, rest = 0, 16 - self._begin_bits
        for start, stop in pairwise(self._starts[first:]):
            at = start - self._starts[first]
            side = at + (4 if stream[at + 1] & 1 else 6)
            wanted = int.from_bytes(stream[side : side + 2], "big") >> rest
            if wanted > available:
                stream[side : side + self._side_bytes] = bytes(self._side_bytes)
                stream[side : side + 2] = (available << rest).to_bytes(2, "big")
            available += stop - self._starts[first] - side - self._side_bytes
            if available >= _RESERVOIR_BYTES:
                return


class _Walk:
    """Walks over the headers of frames."""

    def __init__(self, file: MemberFile, begin: int, *, has_info: bool) -> None:
        self._file = file
        self._has_info = has_info
        self.starts = [begin]
        head = int.from_bytes(file.part(begin, begin + 4), "big")
        self._second = head >> 16 & 0xFF | 1
        kinds = [kind_of(head & 0xFF00FF | third << 8) for third in range(256)]
        rate = head >> 10 & 3
        self._sizes = [kind.num_bytes if kind and third >> 2 & 3 == rate else 0 for third, kind in enumerate(kinds)]

    def reaches(self, number: int) -> bool:
        """Whether there are this many frames one after the other, before another stream begins."""
        while len(self.starts) <= number:
            piece = bytes(self._file.part(self.starts[-1], self.starts[-1] + _PIECE_BYTES))
            if not self._has_info and any(mark in piece for mark in _MARKS):
                return False
            if not self._steps(piece, number):
                return False
        return self.starts[number] <= self._file.num_bytes

    def _steps(self, piece: bytes, number: int) -> bool:
        """Walk through a piece that begins at the last frame. Returns whether all is frames, and at least one."""
        starts, sizes, second, stop = self.starts, self._sizes, self._second, len(piece) - 3
        begin, before, at = starts[-1], len(starts), 0
        for _ in range(number + 1 - before):
            if at >= stop:
                break
            size = sizes[piece[at + 2]]
            if piece[at] != 0xFF or piece[at + 1] | 1 != second or not size:
                return False
            at += size
            starts.append(begin + at)
        return len(starts) > before
