"""Encodes spans of a recording. A span is cut at the recording's own rate, then converted.

A span's bytes are those of a recording that has only its frames: neither the frames around it nor other spans matter.
Spans of one recording may overlap, and be in any order. Memory does not depend on the recording's length.

                 a seek is exact (PCM, FLAC)            a seek is not exact (MP3, Vorbis, Opus)
    recording    |..[==A==]....[=B=]..[=C=].....|       |..[==A==]....[=B=].....|
    decoded         [==A==]    [=B=]  [=C=]             |..[==A==]....[=B=]             once, from the beginning
"""

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import numpy as np

from headrace.audio.encode import BLOCK_SAMPLES, Conversion, encoded_as, form_of
from headrace.audio.forms import AudioFormat, AudioInfo, EncodedSegment, Segment, Span
from headrace.audio.levels import Samples
from headrace.audio.opening import open_sound
from headrace.audio.reader import FrameReader
from headrace.audio.segments import resampled_length
from headrace.audio.writer import write_stream
from headrace.errors import AudioError

_HELD_BYTES = 64 << 20  # decoded frames of spans that have begun and not ended; what is more goes to a temporary file

Encoded = EncodedSegment | AudioError
"""A span in its codec, or the reason why it cannot be decoded."""


def encode_spans(
    file: BinaryIO,
    info: AudioInfo,
    wanted: AudioFormat,
    spans: Sequence[Span],
    *,
    block_samples: int = BLOCK_SAMPLES,
) -> Iterator[tuple[int, Encoded]]:
    """Encode spans of a recording, lazily.

    Yields the number of each span and its result: in the order in which they begin if a seek is exact, and in the order
    in which they end if not. Frames that no span contains are not decoded if a seek is exact; all others are decoded
    once, or once for each span that contains them. If decoding fails, the spans that could be decoded are valid.

    Args:
        file: the recording, seekable. The caller must not read it meanwhile. Its position is restored.
        info: result of `probe` for this recording.
        wanted: format in the shard; `segment_seconds` has no effect.
        spans: not empty, and within the recording.
        block_samples: number of samples (frames times channels) to decode at a time.

    Raises:
        BuildError: the encoder or the disk failed.
    """
    try:
        job = Conversion(info, form_of(info, wanted))
    except AudioError as error:
        yield from ((number, error) for number in range(len(spans)))
        return
    block_frames = max(1, block_samples // info.num_channels)
    encode = _by_seeking if info.has_exact_seek else _in_one_pass
    yield from encode(file, job, spans, block_frames)


def _by_seeking(
    file: BinaryIO, job: Conversion, spans: Sequence[Span], block_frames: int
) -> Iterator[tuple[int, Encoded]]:
    left = deque(_by_start(spans))
    while left:
        try:
            with open_sound(file) as sound:  # again after an error: a decoder may be unusable then
                position = 0
                while left:
                    span = spans[left[0]]
                    if span.start_frame != position:
                        sound.seek(span.start_frame)
                    reader = FrameReader(
                        sound,
                        job.info,
                        dtype=job.reading_dtype,
                        block_frames=block_frames,
                        position=span.start_frame,
                    )
                    result = _encoded(job, span, reader.blocks(span.start_frame, span.stop_frame))
                    position = span.stop_frame
                    yield left.popleft(), result
        except AudioError as error:
            yield left.popleft(), error


def _in_one_pass(
    file: BinaryIO, job: Conversion, spans: Sequence[Span], block_frames: int
) -> Iterator[tuple[int, Encoded]]:
    waiting = deque(_by_start(spans))
    begun: list[_BegunSpan] = []
    position = 0
    try:
        with open_sound(file) as sound:
            reader = FrameReader(sound, job.info, dtype=job.reading_dtype, block_frames=block_frames)
            for block in reader.blocks(0, max(span.stop_frame for span in spans)):
                stop = position + len(block)
                while waiting and spans[waiting[0]].start_frame < stop:
                    begun.append(_BegunSpan(waiting[0], spans[waiting.popleft()]))
                for one in begun:
                    one.add(block, position)
                position = stop
                for one in [one for one in begun if one.span.stop_frame <= stop]:
                    begun.remove(one)
                    yield one.number, _encoded(job, one.span, one.blocks(block_frames))
                _hold_less(begun)
    except AudioError as error:
        for number in sorted([*waiting, *(one.number for one in begun)]):
            yield number, error


def _by_start(spans: Sequence[Span]) -> list[int]:
    """Numbers of the spans in the order in which they begin."""
    return sorted(range(len(spans)), key=spans.__getitem__)


def _encoded(job: Conversion, span: Span, blocks: Iterator[Samples]) -> EncodedSegment:
    """A span in its codec, from its frames."""
    num_frames = resampled_length(span.num_frames, job.info.sample_rate_hz, job.form.sample_rate_hz)
    whole = Segment(0, 0, num_frames)
    pcm = job.prepared(blocks, whole, job.window(whole))
    payload, num_bytes = write_stream(pcm, num_frames, job.form)
    return encoded_as(whole, payload, num_bytes, job.form)


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
        self._held.append(block[start:stop].copy())

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
