"""A recording to FLAC, segment by segment, in bounded memory.

Owns the path from source frames to a shard's payloads: which frames, in which dtype, through which steps. It knows no
data set, no storage and no threads: callers run many of these at once, since libsndfile and soxr work without the GIL.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from headrace.audio.flac import MAGIC, flac_info
from headrace.audio.forms import (
    MAX_CHANNELS,
    MAX_SAMPLE_RATE_HZ,
    AudioFormat,
    AudioInfo,
    EncodedSegment,
    Reject,
    Segment,
)
from headrace.audio.levels import Samples, to_mono, to_pcm
from headrace.audio.reader import FrameReader, native_dtype, overlap_of, read_to_end
from headrace.audio.resampling import dtype_for, resampled
from headrace.audio.segments import Window, resampling_window
from headrace.audio.sound import open_sound
from headrace.audio.writer import FlacForm, copy_file, write_flac
from headrace.errors import AudioError

_BLOCK_SAMPLES = 1 << 20  # decoded at a time: bounds memory, and a short clip is one read and one write
_FLAC_HEAD_BYTES = 42


def encode_segments(
    file: BinaryIO,
    info: AudioInfo,
    wanted: AudioFormat,
    segments: Sequence[Segment],
    *,
    block_samples: int = _BLOCK_SAMPLES,
) -> Iterator[EncodedSegment]:
    """Encode segments of a recording, lazily, in the order given, which must be ascending.

    A segment's bytes depend neither on which others are asked for nor on `block_samples`. Integers that fit are kept
    bit for bit; others are rounded and clipped (`levels`). A resampled segment sees its surroundings, so that segments
    put together equal the whole within one step of the output. A source that already is FLAC in the wanted form, asked
    for whole, is decoded once to prove that it is sound and then copied byte for byte.

    Args:
        file: the recording, seekable; not to be read meanwhile. Its position is left as found.
        info: what `probe` said of it.
        wanted: the form in the shard.
        segments: from `plan_segments`.
        block_samples: how many samples (frames times channels) to decode at a time.

    Raises:
        AudioError: `truncated`, `undecodable`, `non_finite`; or `unsupported` where the wanted form cannot be made,
            naming the YAML key that settles it.
        BuildError: the encoder or the disk failed.
    """
    if not segments:
        return
    form = _form(info, wanted)
    block_frames = max(1, block_samples // info.num_channels)
    if _is_copyable(file, info, form, segments):
        with open_sound(file) as sound:
            read_to_end(FrameReader(sound, info, dtype=native_dtype(info), block_frames=block_frames), info.num_frames)
        yield _copied(file, segments[0], form)
        return
    job = _Job(info, form)
    windows = [job.window(segment) for segment in segments]
    overlap = overlap_of([(window.start_frame, window.stop_frame) for window in windows])
    with open_sound(file) as sound:
        reader = FrameReader(sound, info, dtype=job.reading_dtype, block_frames=block_frames, keep=overlap)
        for segment, window in zip(segments, windows, strict=True):
            blocks = job.prepared(reader.blocks(window.start_frame, window.stop_frame), segment, window)
            payload, num_bytes = write_flac(blocks, segment.num_frames, form)
            yield _result(segment, payload, num_bytes, form, copied=False)


@dataclass(frozen=True, slots=True)
class _Job:
    """The steps from one source to one form."""

    info: AudioInfo
    form: FlacForm

    @property
    def resamples(self) -> bool:
        return self.info.sample_rate_hz != self.form.sample_rate_hz

    @property
    def mixes(self) -> bool:
        return self.form.num_channels == 1 < self.info.num_channels

    @property
    def reading_dtype(self) -> str:
        """Means are taken in float64, which holds any sum exactly; what is only copied or rounded keeps its own."""
        if self.mixes:
            return "float64"
        return dtype_for(self.form.bits) if self.resamples else native_dtype(self.info)

    def window(self, segment: Segment) -> Window:
        """The source frames that a segment is made of."""
        if self.resamples:
            return resampling_window(segment, self.info.sample_rate_hz, self.form.sample_rate_hz)
        return Window(segment.start_frame, segment.stop_frame, 0)

    def prepared(self, blocks: Iterable[Samples], segment: Segment, window: Window) -> Iterator[Samples]:
        """Source blocks of a window as the segment's PCM, (frames, channels of the form)."""
        if self.mixes:
            blocks = map(to_mono, blocks)
        if self.resamples:
            rates = (self.info.sample_rate_hz, self.form.sample_rate_hz)
            blocks = resampled(blocks, window, segment.num_frames, rates, self.form.bits)
        repeats = self.form.num_channels if self.info.num_channels == 1 else 1
        for block in blocks:
            pcm = to_pcm(block, self.form.bits)
            yield np.repeat(pcm, repeats, axis=1) if repeats > 1 else pcm


def _form(info: AudioInfo, wanted: AudioFormat) -> FlacForm:
    """The wanted form, with the source's own values where none is asked for.

    Raises:
        AudioError: `unsupported`.
    """
    num_channels = wanted.output_channels(info)
    if num_channels > MAX_CHANNELS:
        raise AudioError(
            Reject.UNSUPPORTED, f"{num_channels} channels, FLAC holds {MAX_CHANNELS}: set audio.num_channels to 1"
        )
    if num_channels not in (1, info.num_channels) and info.num_channels != 1:
        raise AudioError(
            Reject.UNSUPPORTED,
            f"{info.num_channels} channels cannot be made {num_channels}: set audio.num_channels to 1 (mean) or null",
        )
    rate_hz = wanted.output_rate_hz(info.sample_rate_hz)
    if rate_hz > MAX_SAMPLE_RATE_HZ or (rate_hz >= 1 << 16 and rate_hz % 10):  # RFC 9639, section 7
        raise AudioError(Reject.UNSUPPORTED, f"FLAC cannot stream {rate_hz} Hz: set audio.sample_rate to a common rate")
    return FlacForm(rate_hz, num_channels, wanted.output_bits(info), wanted.compression_level)


def _is_copyable(file: BinaryIO, info: AudioInfo, form: FlacForm, segments: Sequence[Segment]) -> bool:
    """Whether the file is plain FLAC (nothing before its magic) in the wanted form, and one segment is all of it."""
    if info.container != "FLAC" or list(segments) != [Segment(0, 0, info.num_frames)]:
        return False
    before = file.tell()
    file.seek(0)
    head = file.read(_FLAC_HEAD_BYTES)
    file.seek(before)
    wanted = (info.num_frames, form.sample_rate_hz, form.num_channels, form.bits)
    return head.startswith(MAGIC) and flac_info(head) == wanted


def _copied(file: BinaryIO, segment: Segment, form: FlacForm) -> EncodedSegment:
    before = file.tell()
    file.seek(0)
    payload, num_bytes = copy_file(file, segment.num_frames, form)
    file.seek(before)
    return _result(segment, payload, num_bytes, form, copied=True)


def _result(
    segment: Segment, payload: bytes | BinaryIO, num_bytes: int, form: FlacForm, *, copied: bool
) -> EncodedSegment:
    return EncodedSegment(
        segment=segment,
        payload=payload,
        num_bytes=num_bytes,
        num_frames=segment.num_frames,
        sample_rate_hz=form.sample_rate_hz,
        num_channels=form.num_channels,
        bits_per_sample=form.bits,
        copied=copied,
    )
