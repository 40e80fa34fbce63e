"""Encodes spans of a recording. A span is cut at the recording's own rate, then converted.

A span's bytes are those of a recording that has only its frames and channels: neither the frames around it, nor other
channels or spans matter.
Spans of one recording may overlap, and be in any order. Memory does not depend on the recording's length.

                 a seek is exact (PCM, FLAC)     a seek is not exact (MP3, Vorbis, Opus)
    recording    |..[==A==]......[=B=]....|      |..[==A==]......[=B=]....|
                        [==C==]                         [==C==]
    decoded         [=========]  [===]           [===================]
                    once, without the gaps       once, from the beginning
"""

import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, cast

import numpy as np

from headrace.audio.conversion import Conversion, form_of
from headrace.audio.encode import BLOCK_SAMPLES
from headrace.audio.forms import AudioFormat, AudioInfo, EncodedSegment, Span
from headrace.audio.levels import Samples
from headrace.audio.opening import open_sound
from headrace.audio.reader import FrameReader
from headrace.audio.tags import behind_tag
from headrace.audio.transform import TransformedConversion
from headrace.errors import AudioError

_HELD_BYTES = 64 << 20  # decoded frames of spans that have begun and not ended; what is more goes to a temporary file

Encoded = EncodedSegment | AudioError
"""A span in its codec, or the reason why it cannot be decoded."""
_Job = Conversion | TransformedConversion


def encode_spans(
    file: BinaryIO,
    info: AudioInfo,
    wanted: AudioFormat,
    spans: Sequence[Span],
    *,
    block_samples: int = BLOCK_SAMPLES,
) -> Iterator[tuple[int, Encoded]]:
    """Encode spans of a recording, lazily: `decode_spans`, and each result of it called at once."""
    for number, encode in decode_spans(file, info, wanted, spans, block_samples=block_samples):
        yield number, encode()


def decode_spans(  # noqa: PLR0913 - a recording, what is wanted of it, and how it is read
    file: BinaryIO,
    info: AudioInfo,
    wanted: AudioFormat,
    spans: Sequence[Span],
    *,
    metadata: Sequence[Mapping[str, Any]] = (),
    block_samples: int = BLOCK_SAMPLES,
) -> Generator[tuple[int, Callable[[], Encoded]], None, None]:
    """Decode spans of a recording, lazily, for encoding on other threads.

    Yields the number of each span and a function that encodes its frames, which may be called once, on any thread, at
    any time. Spans come in the order in which they end within a group of overlapping spans.
    Each frame is decoded at most once (twice if the channels of some spans are mixed), and, if a seek is exact, only if
    a span contains it. If decoding fails, the spans that were decoded are valid; if a seek is exact, each other span
    of the group is then decoded alone.

    Args:
        file: the recording, seekable. The caller must not read it meanwhile. Its position is restored.
        info: result of `probe` for this recording.
        wanted: format in the shard; `segment_seconds` has no effect.
        spans: not empty, and within the recording, like their channels.
        metadata: the user's columns of each span, for `wanted.transform`; empty for none.
        block_samples: number of samples (frames times channels) to decode at a time.

    Raises:
        BuildError: the encoder or the disk failed.
    """
    jobs: dict[int, _Job] = {}
    for number, span in enumerate(spans):
        try:
            jobs[number] = _job_of(span, info, wanted, metadata[number] if metadata else {})
        except AudioError as error:
            yield number, partial(_same, error)
    file = behind_tag(file)
    block_frames = max(1, block_samples // info.num_channels)
    # Spans whose channels are mixed are decoded to another dtype than others.
    for dtype in dict.fromkeys(job.reading_dtype for job in jobs.values()):
        of_dtype = {number: job for number, job in jobs.items() if job.reading_dtype == dtype}
        yield from _decode_spans(file, info, spans, of_dtype, block_frames)


def _job_of(span: Span, info: AudioInfo, wanted: AudioFormat, metadata: Mapping[str, Any]) -> _Job:
    """The conversion of a span's channels. Raises `AudioError`: `unsupported`."""
    chosen = replace(info, num_channels=len(span.channels)) if span.channels else info
    if wanted.transform is not None:
        return TransformedConversion(chosen, wanted, metadata)
    return Conversion(chosen, form_of(chosen, wanted))


def _decode_spans(
    file: BinaryIO, info: AudioInfo, spans: Sequence[Span], jobs: Mapping[int, _Job], block_frames: int
) -> Iterator[tuple[int, Callable[[], Encoded]]]:
    """`decode_spans` for the spans that have a job; all jobs read one dtype."""
    dtype = next(iter(jobs.values())).reading_dtype
    groups = deque(_overlapping(spans, jobs) if info.has_exact_seek else [_by_start(spans, jobs)])
    while groups:  # again after an error: a decoder may be unusable then
        group, done = groups[0], set[int]()
        try:
            with open_sound(file) as sound:
                position = 0
                while groups:
                    group, done = groups[0], set[int]()
                    start = spans[group[0]].start_frame if info.has_exact_seek else 0
                    if start != position:
                        sound.seek(start)
                    reader = FrameReader(sound, info, dtype=dtype, block_frames=block_frames, position=start)
                    for number, encode in _read_forward(reader, start, jobs, spans, group):
                        done.add(number)
                        yield number, encode
                    position = max(spans[number].stop_frame for number in group)
                    groups.popleft()
        except AudioError as error:
            groups.popleft()
            left = [number for number in group if number not in done]
            if info.has_exact_seek and len(group) > 1:  # each is judged alone
                groups.extendleft([number] for number in reversed(left))
            else:
                yield from ((number, partial(_same, error)) for number in left)


def _same(result: Encoded) -> Encoded:
    return result


def _overlapping(spans: Sequence[Span], wanted: Iterable[int]) -> Iterator[list[int]]:
    """Numbers of the wanted spans in groups that overlap or touch, in the order in which they begin."""
    group: list[int] = []
    reached = 0
    for number in _by_start(spans, wanted):
        if group and spans[number].start_frame > reached:
            yield group
            group, reached = [], 0
        group.append(number)
        reached = max(reached, spans[number].stop_frame)
    if group:
        yield group


def _read_forward(
    reader: FrameReader, start: int, jobs: Mapping[int, _Job], spans: Sequence[Span], group: Sequence[int]
) -> Iterator[tuple[int, Callable[[], Encoded]]]:
    """Decode spans from frames that are read once, from a frame on. Yields each when its last frame has been read."""
    if len(group) == 1 and spans[group[0]].start_frame == start:  # needs no frames in memory
        span = spans[group[0]]
        blocks = (_chosen(block, span) for block in reader.blocks(start, span.stop_frame))
        yield group[0], partial(_same, jobs[group[0]].encoded_whole(blocks, span.num_frames))
        return
    waiting = deque(group)
    begun: list[_BegunSpan] = []
    position = start
    for block in reader.blocks(start, max(spans[number].stop_frame for number in group)):
        stop = position + len(block)
        while waiting and spans[waiting[0]].start_frame < stop:
            begun.append(_BegunSpan(waiting[0], spans[waiting.popleft()]))
        for one in begun:
            one.add(block, position)
        position = stop
        for one in [one for one in begun if one.span.stop_frame <= stop]:
            begun.remove(one)
            held = one.blocks(reader.block_frames)
            yield one.number, partial(jobs[one.number].encoded_whole, held, one.span.num_frames)
        _hold_less(begun)


def _chosen(block: Samples, span: Span) -> Samples:
    """The channels of a block that a span has."""
    return np.ascontiguousarray(block[:, span.channels]) if span.channels else block


def _by_start(spans: Sequence[Span], wanted: Iterable[int]) -> list[int]:
    """Numbers of the wanted spans in the order in which they begin."""
    return sorted(wanted, key=spans.__getitem__)


@dataclass(slots=True)
class _BegunSpan:
    """A span, and its frames so far: the first ones in a temporary file if there are many, the others in memory."""

    number: int
    span: Span
    _held: list[Samples] = field(default_factory=list)
    _file: BinaryIO | None = None

    @property
    def held_bytes(self) -> int:
        """Size of the frames in memory."""
        return sum(block.nbytes for block in self._held)

    def add(self, block: Samples, position: int) -> None:
        """Add those frames of a block that are in the span. `position` is the frame at which the block begins."""
        start, stop = max(0, self.span.start_frame - position), self.span.stop_frame - position
        self._held.append(_chosen(block[start:stop], self.span).copy())

    def spill(self) -> None:
        """Move the frames from memory to the file."""
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - `blocks` closes it
        for block in self._held:
            self._file.write(block.data)
        self._held = self._held[:1] and [self._held[0][:0]]  # keeps dtype and channels

    def blocks(self, block_frames: int) -> Iterator[Samples]:
        """All frames, in blocks. The file is closed at the end."""
        if self._file is not None:
            dtype, num_channels = self._held[0].dtype, self._held[0].shape[1]
            self._file.seek(0)
            with self._file:
                while data := self._file.read(block_frames * num_channels * dtype.itemsize):
                    yield np.frombuffer(data, dtype).reshape(-1, num_channels)
        yield from self._held


def _hold_less(begun: Sequence[_BegunSpan]) -> None:
    """Move frames to files until few are in memory, those of the longest spans first."""
    sizes = [(one.held_bytes, one) for one in begun]
    total = sum(size for size, _ in sizes)
    for size, one in sorted(sizes, key=lambda item: -item[0]):
        if total <= _HELD_BYTES:
            return
        one.spill()
        total -= size
