"""Finds the frames of a FLAC stream that hold some samples, and decodes these, without reading the rest.

Each frame is independent of all others, and its header has its number and a checksum (RFC 9639, section 9.1). So a
search by byte position finds the frames, and a stream of STREAMINFO and these frames has the samples. A false header,
or damage, shows as another number of decoded samples: then the caller decodes all.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.audio.dr_flac import open_memory
from headrace.audio.flac import (
    MAGIC,
    STREAMINFO_STOP,
    FlacBytes,
    FlacInfo,
    checked_count,
    decode_flac_into,
    flac_info,
    read_frames,
    whole_flac_info,
)
from headrace.audio.flac_sound import MOST_FRAME_HEADER_BYTES, frame_form
from headrace.audio.member_file import MemberFile
from headrace.audio.seek_points import Coding, SeekPoints

_SYNC = re.compile(rb"\xff[\xf8\xf9]")
_PROBE_BYTES = 16 << 10  # about a frame of CD audio
_LAST_BLOCK = 0x80
_MOST_BLOCKS = 128
_BLOCK_HEADER_BYTES = 4
_PIECE_BYTES = 1 << 20
_POINT_FRAMES = 1 << 13  # at least, from one seek point to the next: 0.19 s of CD audio
_CODED_BLOCKS = (6, 7)  # the number of samples is in one and two bytes of the header


class _Place(NamedTuple):
    """A frame: its first byte in the file, and the number of its first sample."""

    byte: int
    sample: int


def decode_frames(file: MemberFile, info: FlacInfo, out: npt.NDArray[np.float32], start: int) -> bool:
    """Decode samples from `start` on into `out` (channels, samples).

    Args:
        file: a FLAC stream of known length.
        info: its STREAMINFO.
        out: float32 (channels, samples), any strides; it is filled with the values of the whole decode.
        start: number of the first sample.

    Returns:
        False if the frames cannot be found, or are damaged: then `out` may hold anything.
    """
    stop = start + out.shape[1]
    head = bytes(file.part(0, _PROBE_BYTES))
    search = _Search(file, info, int.from_bytes(head[10:12], "big"))
    begin = _audio_begin(file)
    if begin is None or (first := search.before(start, begin)) is None:
        return False
    last, frames = search.behind(stop, first)
    return _decoded(head[:STREAMINFO_STOP], frames, out, (start, first.sample, last.sample))


def decode_flac_part(data: FlacBytes, out: npt.NDArray[np.float32], start: int) -> None:
    """Decode samples from `start` on into `out` (channels, samples), of a stream in memory that may be damaged.

    Raises:
        AudioError: the part is damaged, or any part of the stream if its frames cannot be found.
        ValueError: `out` has the wrong shape or dtype, or the samples are outside of the stream.
    """
    info, view = whole_flac_info(data), memoryview(data)
    count = checked_count(info, out, start, out.shape[1])
    if count == info.num_frames:  # in its place: it may not fit in memory twice
        decode_flac_into(data, out, num_frames=count)
        return
    if not count:
        return
    file = MemberFile(lambda begin, end: view[begin:end], len(view), len(view))
    if not info.num_frames or not decode_frames(file, info, out, start):
        whole = np.empty((info.num_channels, info.num_frames or start + out.shape[1]), np.float32)
        decode_flac_into(data, whole, num_frames=whole.shape[1])
        out[:] = whole[:, start : start + out.shape[1]]


def decode_frames_at(
    file: MemberFile, facts: tuple[int, int, int], points: SeekPoints, out: npt.NDArray[np.float32], start: int
) -> bool:
    """Decode samples as `decode_frames`, whose bytes seek points give, in one read.

    Args:
        file: a FLAC stream.
        facts: its samples, rate in Hz and channels, which the frames have to agree with.
        points: places of frames, a multiple of their samples apart.
        out: is filled, as in `decode_frames`.
        start: number of the first sample.
    """
    stop, first = start + out.shape[1], points.frame(points.at(start))
    ((begin, end),) = flac_spans(points, (start, stop), file.num_bytes)
    blob = file.part(begin, end)
    header = bytes(blob[:MOST_FRAME_HEADER_BYTES])
    if (head := _streaminfo(file, facts, header)) is None or _number(header) * _block_samples(header) != first:
        return False
    block, last = _block_samples(header), _Place(end, min(facts[0], points.frame(_behind(points, stop))))
    if (wanted := -(-stop // block) * block) < last.sample:
        near = max(1, int(points.places[points.at(wanted)]) - begin)
        search = _Search(file, flac_info(head), block)
        last = next(search.frames_of(blob, near, begin, (wanted, wanted + 1)), last)
    return _decoded(head, blob[: last.byte - begin], out, (start, first, last.sample))


def flac_spans(points: SeekPoints, stretch: tuple[int, int], num_bytes: int) -> list[tuple[int, int]]:
    """Bytes that `decode_frames_at` reads for frames [start, stop) of a file."""
    number = _behind(points, stretch[1])
    end = int(points.places[number]) if number < len(points.places) else num_bytes
    return [(int(points.places[points.at(stretch[0])]), end)]


def _behind(points: SeekPoints, frame: int) -> int:
    return -(-frame // points.step)


def flac_points(file: MemberFile, info: FlacInfo) -> SeekPoints | None:
    """Places of frames, found from all bytes of a stream; None where block sizes vary, or not all frames are found."""
    head = bytes(file.part(0, STREAMINFO_STOP))
    block, begin = int.from_bytes(head[10:12], "big"), _audio_begin(file)
    if begin is None or not block or head[8:10] != head[10:12]:
        return None
    first = bytes(file.part(begin, begin + MOST_FRAME_HEADER_BYTES))
    step, places, expected = -(-_POINT_FRAMES // block) * block, list[int](), 0
    for start in range(begin, file.num_bytes, _PIECE_BYTES):
        blob = bytes(file.part(start, start + _PIECE_BYTES + MOST_FRAME_HEADER_BYTES))
        at = blob.find(first[:3])  # sync, and the codes of block size and rate, which all frames but the last share
        while 0 <= at < _PIECE_BYTES:
            header = blob[at : at + MOST_FRAME_HEADER_BYTES]
            if len(header) == MOST_FRAME_HEADER_BYTES and _number(header) * block == expected:
                if not expected % step:
                    places.append(start + at)  # what reads from there compares the header's checksum
                expected += block
            at = blob.find(first[:3], at + 1)
    is_whole = expected + block >= info.num_frames
    return SeekPoints(Coding.FLAC, 0, step, np.array(places, np.int64)) if places and is_whole else None


def _decoded(head: bytes, frames: memoryview, out: npt.NDArray[np.float32], samples: tuple[int, int, int]) -> bool:
    """Decode frames into `out`; `samples` are the first one of `out`, and the first and the end of the frames."""
    start, first, last = samples
    streaminfo = bytearray(head)
    streaminfo[len(MAGIC)] |= _LAST_BLOCK
    stream = streaminfo + frames
    decoded = np.empty((len(out), last - first), np.float32)
    if (decoder := open_memory(stream)) is None:
        return False
    with decoder:
        is_whole = read_frames(decoder, decoded) == decoded.shape[1]
    out[:] = decoded[:, start - first : start - first + out.shape[1]]
    return is_whole


def _streaminfo(file: MemberFile, facts: tuple[int, int, int], header: bytes) -> bytes | None:
    """STREAMINFO for a stream of frames of one size, from the header of one; read where the header lacks the bits.

    None for bytes that are no such header, or whose rate or channels differ from the facts.
    """
    form = frame_form(header)
    if form is None or header[1] & 1:
        return None
    if not all(form) or (info := FlacInfo(facts[0], *form))[:3] != facts:
        head = bytes(file.part(0, STREAMINFO_STOP))
        return head if flac_info(head)[:3] == facts else None
    packed = info.sample_rate_hz << 44 | info.num_channels - 1 << 41 | info.bits_per_sample - 1 << 36 | info.num_frames
    block_header = (STREAMINFO_STOP - len(MAGIC) - _BLOCK_HEADER_BYTES).to_bytes(_BLOCK_HEADER_BYTES, "big")
    return (
        MAGIC
        + block_header
        + _block_samples(header).to_bytes(2, "big") * 2
        + bytes(6)
        + packed.to_bytes(8, "big")
        + bytes(16)
    )


def part_info(file: MemberFile) -> FlacInfo | None:
    """STREAMINFO of a FLAC stream that states its length; None for other files. Raises `AudioError` as `flac_info`."""
    if bytes(file.part(0, len(MAGIC))) != MAGIC:
        return None
    info = flac_info(file.part(0, STREAMINFO_STOP))
    return info if info.num_frames else None


def _audio_begin(file: MemberFile) -> int | None:
    """The byte behind the metadata; None if there are too many blocks."""
    at = len(MAGIC)
    for _ in range(_MOST_BLOCKS):
        header = file.part(at, at + _BLOCK_HEADER_BYTES)
        if len(header) < _BLOCK_HEADER_BYTES:
            return None
        at += _BLOCK_HEADER_BYTES + int.from_bytes(header[1:], "big")
        if header[0] & _LAST_BLOCK:
            return at
    return None


def _fits(form: tuple[int, int, int] | None, info: FlacInfo) -> bool:
    """Whether a frame's header is one, with the rate, channels and bits of STREAMINFO."""
    return form is not None and all(not had or had == wanted for had, wanted in zip(form, info[1:], strict=True))


def _block_samples(header: bytes) -> int:
    """Samples of a frame, from its header (RFC 9639, section 9.1.1)."""
    code = header[2] >> 4
    if code in _CODED_BLOCKS:
        at = 4 + max(1, 8 - (~header[4] & 0xFF).bit_length())
        return int.from_bytes(header[at : at + code - 5], "big") + 1
    return 192 if code == 1 else 576 << code - 2 if code < 6 else 256 << code - 8


class _Search:
    """Finds frames by their samples."""

    def __init__(self, file: MemberFile, info: FlacInfo, block_samples: int) -> None:
        self._file = file
        self._info = info
        self._block_samples = block_samples

    def before(self, sample: int, begin: int) -> _Place | None:
        """The last frame that begins at or before a sample, or one shortly before it; None if none is found.

        Args:
            sample: the sample.
            begin: first byte of the first frame.
        """
        low, high = _Place(begin, 0), _Place(self._file.num_bytes, self._info.num_frames)
        probe, turn = _PROBE_BYTES, 0
        while high.byte - low.byte > 2 * probe:
            share = (sample - low.sample) / max(1, high.sample - low.sample) if turn % 3 < 2 else 0.5
            at = low.byte + int((high.byte - low.byte) * share) - probe // 2
            at = min(max(at, low.byte + 1), high.byte - probe)
            found = list(self._frames(at, at + probe, low.sample, high.sample))
            turn += 1
            if not found:
                probe *= 2
                continue
            is_before = [place for place in found if place.sample <= sample]
            is_behind = [place for place in found if place.sample > sample]
            low, high = max([low, *is_before]), min([high, *is_behind])
            if is_before and is_behind:
                return low
        frames = [_Place(low.byte, low.sample), *self._frames(low.byte + 1, high.byte, low.sample, high.sample)]
        return max(place for place in frames if place.sample <= sample)

    def behind(self, sample: int, first: _Place) -> tuple[_Place, memoryview]:
        """The first frame that begins at or behind a sample, or one shortly behind it; or the end of the stream.

        Returns:
            The frame, and the bytes from `first` to it.
        """
        end = _Place(self._file.num_bytes, self._info.num_frames)
        rate = (end.byte - first.byte) / max(1, end.sample - first.sample)
        about = int((sample - first.sample) * rate)
        found = bytearray(self._file.part(first.byte, first.byte + about + _PROBE_BYTES))
        at = max(1, about - about // 4)
        while True:
            is_last = first.byte + len(found) >= end.byte
            places = () if sample >= end.sample else self.frames_of(found, at, first.byte, (sample, end.sample))
            for place in places:
                return place, memoryview(found)[: place.byte - first.byte]
            if is_last:
                return end, memoryview(found)
            at = max(1, len(found) - MOST_FRAME_HEADER_BYTES)
            found += self._file.part(first.byte + len(found), first.byte + len(found) + _PROBE_BYTES)

    def _frames(self, start: int, stop: int, low: int, high: int) -> Iterator[_Place]:
        """The frames whose header is in [start, stop), with samples in [low, high)."""
        return self.frames_of(self._file.part(start, stop), 0, start, (low, high))

    def frames_of(
        self, blob: bytes | bytearray | memoryview, at: int, begin: int, samples: tuple[int, int]
    ) -> Iterator[_Place]:
        """The frames whose header is in `blob` from `at` on, which begins at byte `begin`, with samples in a range."""
        for match in _SYNC.finditer(blob, at):
            header = bytes(blob[match.start() : match.start() + MOST_FRAME_HEADER_BYTES])
            if not _fits(frame_form(header), self._info):
                continue
            number = _number(header) * (1 if header[1] & 1 else self._block_samples)
            if samples[0] <= number < samples[1]:
                yield _Place(begin + match.start(), number)


def _number(header: bytes) -> int:
    """Number of a frame, or of its first sample where block sizes vary: coded like UTF-8, in up to seven bytes."""
    lead = header[4]
    num_more = max(0, 7 - (~lead & 0xFF).bit_length()) if lead & 0x80 else 0
    number = lead & (0x7F >> (num_more + 1 if num_more else 0))
    for byte in header[5 : 5 + num_more]:
        number = number << 6 | byte & 0x3F
    return number
