"""Finds the streams of an MPEG audio file (MP3, MP2) and counts their frames, without decoding them.

**Length of an MP3.** A file consists of one stream, or of several that were joined. A stream begins at the file's first
frame; at each frame that has an Info header (Xing, Info or VBRI) instead of audio; and after a tag, if all frames that
such a header promised came before the tag. Each stream is decoded by itself, and the results are joined. A stream of n
frames of s samples (s is 1152; 576 for Layer III below 32 kHz; 384 for Layer I) has

- n·s samples if it has no Xing or Info header, because the number of samples that the encoder added is unknown;
- n·s - (delay + 529) - max(0, padding - 529) samples otherwise, after removal at the beginning and the end. Delay and
  padding are those of the LAME tag, or 0 without one; 529 samples is the delay of every decoder.

n is counted and not taken from the header. If a header promises over one frame more than there are, the file is
truncated. (Some encoders count the header's own frame.)
"""

import functools
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from headrace.audio.containers import unsupported
from headrace.audio.forms import AudioReject
from headrace.audio.tags import id3_bytes
from headrace.errors import AudioError

_CHUNK_BYTES = 1 << 20
_LAYERS = {3: 1, 2: 2, 1: 3}
_RATES_HZ = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}  # by version bits
_KBPS = {  # by MPEG 1 or not, and layer: ISO 11172-3, 2.4.2.3; ISO 13818-3
    (True, 1): range(32, 449, 32),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_SYNC = re.compile(rb"\xff[\xe2-\xff]")
_MARKS = (b"VBRI", b"Xing", b"Info")
_MOST_LYRICS_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FrameKind:
    """Facts of a frame's header: its size in bytes, and its form, which is the same in all frames of a stream."""

    num_bytes: int
    is_mpeg_1: bool
    layer: int
    sample_rate_hz: int
    num_channels: int

    @property
    def samples_per_frame(self) -> int:
        """Samples of each channel in a frame."""
        if self.layer == 1:
            return 384
        return 576 if self.layer == 3 and not self.is_mpeg_1 else 1152

    @property
    def form(self) -> tuple[bool, int, int, int]:
        """MPEG version, layer, sample rate and channels."""
        return self.is_mpeg_1, self.layer, self.sample_rate_hz, self.num_channels


@dataclass(frozen=True, slots=True)
class InfoHeader:
    """An Info header.

    Attributes:
        head: bytes of the frame before the mark `Xing` or `InfoHeader`; empty for VBRI, which has no delay and padding.
        num_frames: number of frames that the header promises; None if it has no such field.
        lame: bytes after the other fields, which may be the LAME tag.
        num_bytes: size of the frame.
        stream_bytes: size of the stream that the header promises; None if it has no such field.
    """

    head: bytes
    num_frames: int | None
    lame: bytes
    num_bytes: int
    stream_bytes: int | None = None

    def counting(self, num_frames: int) -> bytes:
        """The header's frame with another number of frames, and everything else that a decoder uses."""
        frame = self.head + b"Info" + (1).to_bytes(4, "big") + num_frames.to_bytes(4, "big") + self.lame
        return frame[: self.num_bytes].ljust(self.num_bytes, b"\0")


@dataclass(slots=True)
class MpegStream:
    """One stream of a file.

    Attributes:
        kind: facts of its first frame.
        info: its Info header, if any.
        spans: byte ranges of its frames; adjacent frames share one range.
        num_frames: number of its frames.
        sizes: header of each kind of frame that it has → size of the frame in bytes.
    """

    kind: FrameKind
    info: InfoHeader | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    num_frames: int = 0
    sizes: dict[bytes, int] = field(default_factory=dict)

    @property
    def largest_frame_bytes(self) -> int:
        """Size of the largest frame; 0 without frames."""
        return max(self.sizes.values(), default=0)

    @property
    def num_samples(self) -> int:
        """Samples of each channel in all frames, including those that encoder and decoder add."""
        return self.num_frames * self.kind.samples_per_frame

    @property
    def is_used_up(self) -> bool:
        """Whether all frames that the stream's Info header promises were added."""
        return self.info is not None and self.info.num_frames is not None and self.num_frames >= self.info.num_frames

    def add(self, start: int, stop: int, num_frames: int) -> None:
        """Append adjacent frames whose headers are in `sizes`."""
        if self.spans and self.spans[-1][1] == start:
            self.spans[-1] = self.spans[-1][0], stop
        else:
            self.spans.append((start, stop))
        self.num_frames += num_frames


def mpeg_streams(file: BinaryIO, num_bytes: int) -> list[MpegStream]:
    """The streams of an MPEG audio file, in order; at least one, each with at least one frame of audio.

    Args:
        file: seekable; its position is moved.
        num_bytes: size of the file.

    Raises:
        AudioError: `undecodable` (bytes that are neither frame, tag nor zeros, where audio may be lost), `truncated`
            (the last frame is truncated, or frames that a header promises are missing), `unsupported` (streams of
            different rates or channels, or frames without a size), `no_frames`.
    """
    streams: list[MpegStream] = []
    for stream in FrameScanner(file, num_bytes).streams():
        promised = stream.info.num_frames if stream.info else None
        if promised is not None and stream.num_frames < promised - 1:
            raise AudioError(
                AudioReject.TRUNCATED,
                f"truncated: the MP3's Info header promises {promised} frames, the file has {stream.num_frames}; fetch "
                "it again, or, if it is complete, write the header again (ffmpeg -i OLD -c copy NEW)",
            )
        if stream.num_frames == 1 and (stream.info is None or not stream.info.head):
            raise unsupported("MPEG audio of one frame", "join it with others, or leave it out of the source")
        if stream.num_frames:
            streams.append(stream)
    if not streams:
        raise AudioError(AudioReject.NO_FRAMES, "the MPEG file has no frame of audio; remove or repair the file")
    return streams


@functools.cache
def kind_of(word: int) -> FrameKind | None:
    """Facts of a frame's header, given its last three bytes; None if they are not a header.

    >>> kind_of(0xFB9004)
    FrameKind(num_bytes=417, is_mpeg_1=True, layer=3, sample_rate_hz=44100, num_channels=2)
    """
    version, layer = word >> 19 & 3, _LAYERS.get(word >> 17 & 3)
    bitrate, rate, padding = word >> 12 & 15, word >> 10 & 3, word >> 9 & 1
    if word >> 21 != 7 or version == 1 or layer is None or bitrate in (0, 15) or rate == 3:
        return None
    is_mpeg_1, rate_hz = version == 3, _RATES_HZ[version][rate]
    bits_per_second = _KBPS[is_mpeg_1, layer][bitrate - 1] * 1000
    kind = FrameKind(0, is_mpeg_1, layer, rate_hz, 1 if word >> 6 & 3 == 3 else 2)
    slot_bytes = 4 if layer == 1 else 1
    num_slots = kind.samples_per_frame // 8 * bits_per_second // rate_hz // slot_bytes + padding
    return FrameKind(num_slots * slot_bytes, *kind.form)


class FrameScanner:
    """Reads the frame headers and tags of a file once, from beginning to end."""

    def __init__(self, file: BinaryIO, num_bytes: int) -> None:
        self._file = file
        self._num_bytes = num_bytes
        self._window = b""
        self._window_start = 0
        self._marks: list[int] = []  # places in the window that may be those of Info headers

    def streams(self) -> Iterator[MpegStream]:
        """All streams, including those without a frame of audio. See `mpeg_streams`."""
        at = 0
        is_behind_tag = False
        stream: MpegStream | None = None
        while at < self._num_bytes:
            kind = self.kind_at(at)
            if kind is None:
                at += self._tag_bytes(at) or self._junk_bytes(at, stream)
                is_behind_tag = True
                continue
            if at + kind.num_bytes > self._num_bytes:
                raise _cut_off(at, kind.num_bytes, self._num_bytes)
            if stream is not None and kind.form != stream.kind.form:
                raise _other_form(at, stream.kind, kind)
            info = self.info(at, kind) if kind.layer == 3 else None
            if stream is None or info is not None or (is_behind_tag and stream.is_used_up):
                if stream is not None:
                    yield stream
                stream = MpegStream(kind, info)
            if info is None:
                stream.sizes[self._bytes(at, 4)] = kind.num_bytes
                stream.add(at, at + kind.num_bytes, 1)
            is_behind_tag = False
            at = self._behind_run(at + kind.num_bytes, stream)
        if stream is not None:
            yield stream

    def _behind_run(self, at: int, stream: MpegStream) -> int:
        """Add the frames from offset `at` on that have a header which the stream has had, and no mark in them.

        Nearly all frames are such frames; they are counted without a call for each. Returns the offset behind them.
        """
        window, sizes, num_frames = self._window, stream.sizes, 0
        first = place = at - self._window_start
        next_mark = bisect_left(self._marks, first)
        limit = self._marks[next_mark] if next_mark < len(self._marks) else len(window)
        while (size := sizes.get(window[place : place + 4])) is not None and place + size <= limit:
            place += size
            num_frames += 1
        if num_frames:
            stream.add(at, at + place - first, num_frames)
        return at + place - first

    def _bytes(self, at: int, size: int) -> bytes:
        """`size` bytes of the file from offset `at`; fewer at its end."""
        first = at - self._window_start
        if first < 0 or first + size > len(self._window):
            self._file.seek(at)
            self._window, self._window_start, first = self._file.read(max(size, _CHUNK_BYTES)), at, 0
            self._marks = sorted(_places_of_marks(self._window))
        return self._window[first : first + size]

    def kind_at(self, at: int) -> FrameKind | None:
        """Facts of the frame that begins at an offset; None if none does."""
        head = self._bytes(at, 4)
        return kind_of(int.from_bytes(head[1:], "big")) if len(head) == 4 and head[0] == 0xFF else None

    def info(self, at: int, kind: FrameKind) -> InfoHeader | None:
        """The Info header in the frame at an offset; None if the frame has none."""
        if self._bytes(at + 36, 4) == b"VBRI":
            return InfoHeader(b"", int.from_bytes(self._bytes(at + 50, 4), "big"), b"", kind.num_bytes)
        side_bytes = (32, 17) if kind.num_channels == 2 else (17, 9)
        mark_at = 4 + side_bytes[0 if kind.is_mpeg_1 else 1]
        if self._bytes(at + mark_at, 4) not in {b"Xing", b"Info"}:
            return None
        frame = self._bytes(at, kind.num_bytes)
        has_crc = not frame[1] & 1
        if any(frame[4 + 2 * has_crc : mark_at]):  # LAME writes the CRC, and yet the mark where it is without one
            return None
        flags = int.from_bytes(frame[mark_at + 4 : mark_at + 8], "big")
        first, second = (int.from_bytes(frame[mark_at + at : mark_at + at + 4], "big") for at in (8, 12))
        num_frames = first if flags & 1 else None
        stream_bytes = None if not flags & 2 else second if flags & 1 else first
        sizes = (4, 4, 100, 4)  # count of frames, count of bytes, table of contents, quality
        fields = sum(size for bit, size in enumerate(sizes) if flags >> bit & 1)
        return InfoHeader(frame[:mark_at], num_frames, frame[mark_at + 8 + fields :], kind.num_bytes, stream_bytes)

    def _tag_bytes(self, at: int) -> int:
        """Size of the tag, or of the run of zeros, at an offset; 0 if there is neither."""
        head = self._bytes(at, 32)
        if size := id3_bytes(head[:10]):
            return size
        if head.startswith(b"TAG"):
            return 227 if head.startswith(b"TAG+") else 128
        if head.startswith(b"APETAGEX") and len(head) == 32:
            is_header = head[23] & 0x20
            return 32 + (int.from_bytes(head[12:16], "little") if is_header else 0)
        if head.startswith(b"LYRICSBEGIN"):
            text = self._bytes(at, _MOST_LYRICS_BYTES)
            return min((text.find(end) + 9 for end in (b"LYRICS200", b"LYRICSEND") if end in text), default=0)
        return len(head) - len(head.lstrip(b"\0"))

    def _junk_bytes(self, at: int, stream: MpegStream | None) -> int:
        """Number of bytes after the last frame that are not audio.

        There may be such bytes only after all frames that the stream's header promises.

        Raises:
            AudioError: see `mpeg_streams`.
        """
        if stream is None and self._bytes(at, 1) == b"\xff" and not int.from_bytes(self._bytes(at + 2, 1)) >> 4:
            raise AudioError(
                AudioReject.UNSUPPORTED, "free-format MPEG audio, whose frames have no size; decode it to FLAC first"
            )
        if stream is None or not stream.is_used_up or self._has_more(at):
            raise AudioError(
                AudioReject.UNDECODABLE,
                f"damaged MPEG audio: at byte {at}, there is neither a frame nor a tag; fetch the recording again, or, "
                "to use it as it is, decode it to FLAC first",
            )
        return self._num_bytes - at

    def _has_more(self, at: int) -> bool:
        """Whether a tag, or two frames in a row, begin anywhere after offset `at`."""
        while at < self._num_bytes:
            window = self._bytes(at, _CHUNK_BYTES)
            if b"ID3" in window or any(self._are_frames(at + sync.start()) for sync in _SYNC.finditer(window)):
                return True
            at += max(len(window) - 3, 1)
        return False

    def _are_frames(self, at: int) -> bool:
        kind = self.kind_at(at)
        follower = self.kind_at(at + kind.num_bytes) if kind else None
        return kind is not None and follower is not None and follower.form == kind.form


def _places_of_marks(window: bytes) -> Iterator[int]:
    for mark in _MARKS:
        at = window.find(mark)
        while at >= 0:
            yield at
            at = window.find(mark, at + 1)


def _cut_off(at: int, size: int, num_bytes: int) -> AudioError:
    return AudioError(
        AudioReject.TRUNCATED,
        f"truncated: the MPEG frame at byte {at} has {size} bytes, the file only {num_bytes - at} more; fetch the "
        "recording again, or, if it is complete, decode it to FLAC first",
    )


def _other_form(at: int, before: FrameKind, kind: FrameKind) -> AudioError:
    forms = [f"{form.sample_rate_hz} Hz, {form.num_channels} channels, layer {form.layer}" for form in (before, kind)]
    return AudioError(
        AudioReject.UNSUPPORTED,
        f"MPEG audio changes at byte {at} from {forms[0]} to {forms[1]}: damaged, or joined from different files; "
        "fetch it again, or split it there",
    )
