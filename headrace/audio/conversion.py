"""Converts the samples of a recording to the wanted form: mixed, resampled and rounded, in blocks. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from headrace import checksums
from headrace.audio.forms import (
    MAX_CHANNELS,
    MAX_OPUS_CHANNELS,
    MAX_SAMPLE_RATE_HZ,
    OPUS_RATES_HZ,
    AudioFormat,
    AudioInfo,
    AudioReject,
    Codec,
    EncodedSegment,
    Segment,
)
from headrace.audio.levels import Samples, to_mono, to_pcm
from headrace.audio.reader import native_dtype
from headrace.audio.resampling import dtype_for, resampled
from headrace.audio.segments import SourceWindow, resampled_length, resampling_window
from headrace.audio.writer import StreamForm, write_stream
from headrace.errors import AudioError


@dataclass(frozen=True, slots=True)
class Conversion:
    """The steps that convert a source to one form."""

    info: AudioInfo
    form: StreamForm

    @property
    def resamples(self) -> bool:
        """Whether the rate changes."""
        return self.info.sample_rate_hz != self.form.sample_rate_hz

    @property
    def mixes(self) -> bool:
        """Whether channels are mixed to one."""
        return self.form.num_channels == 1 < self.info.num_channels

    @property
    def reading_dtype(self) -> str:
        """Dtype to decode to: float64 for means, which keeps sums exact; otherwise the source's or the resampler's."""
        if self.mixes:
            return "float64"
        return dtype_for(self.form.bits) if self.resamples else native_dtype(self.info)

    def window(self, segment: Segment) -> SourceWindow:
        """The source frames that a segment is made from."""
        if self.resamples:
            return resampling_window(segment, self.info.sample_rate_hz, self.form.sample_rate_hz)
        return SourceWindow(segment.start_frame, segment.stop_frame, 0)

    def prepared(self, blocks: Iterable[Samples], segment: Segment, window: SourceWindow) -> Iterator[Samples]:
        """The segment's PCM, in blocks (frames, channels of the form), from the source blocks of its window."""
        if self.mixes:
            blocks = map(to_mono, blocks)
        if self.resamples:
            rates = (self.info.sample_rate_hz, self.form.sample_rate_hz)
            blocks = resampled(blocks, window, segment.num_frames, rates, self.form.bits)
        repeats = self.form.num_channels if self.info.num_channels == 1 else 1
        for block in blocks:
            pcm = to_pcm(block, self.form.bits)
            yield np.repeat(pcm, repeats, axis=1) if repeats > 1 else pcm

    def encoded(self, blocks: Iterable[Samples], segment: Segment, window: SourceWindow) -> EncodedSegment:
        """A segment in its codec, from the source blocks of its window."""
        payload, num_bytes = write_stream(self.prepared(blocks, segment, window), segment.num_frames, self.form)
        return encoded_as(segment, payload, num_bytes, self.form)

    def encoded_whole(self, blocks: Iterable[Samples], num_frames: int) -> EncodedSegment:
        """A sample in its codec, from all of its source frames; those around it in the recording do not matter."""
        whole = Segment(0, 0, resampled_length(num_frames, self.info.sample_rate_hz, self.form.sample_rate_hz))
        return self.encoded(blocks, whole, self.window(whole))


def form_of(info: AudioInfo, wanted: AudioFormat) -> StreamForm:
    """The wanted form, with the source's values for settings that are None.

    Raises:
        AudioError: `unsupported`.
    """
    num_channels = wanted.output_channels(info)
    if num_channels > MAX_CHANNELS:
        raise AudioError(
            AudioReject.UNSUPPORTED, f"{num_channels} channels, FLAC holds {MAX_CHANNELS}: set audio.num_channels to 1"
        )
    if num_channels not in (1, info.num_channels) and info.num_channels != 1:
        raise AudioError(
            AudioReject.UNSUPPORTED,
            f"{info.num_channels} channels cannot be mixed to {num_channels}: set audio.num_channels to 1 or null",
        )
    rate_hz = wanted.output_rate_hz(info.sample_rate_hz)
    if wanted.codec is Codec.OPUS:
        if num_channels > MAX_OPUS_CHANNELS:
            raise AudioError(
                AudioReject.UNSUPPORTED, f"{num_channels} channels, Opus holds 1 or 2 here: set audio.num_channels to 1"
            )
        if rate_hz not in OPUS_RATES_HZ:
            rates = ", ".join(map(str, OPUS_RATES_HZ))
            raise AudioError(
                AudioReject.UNSUPPORTED, f"Opus has no rate of {rate_hz} Hz: set audio.sample_rate to one of {rates}"
            )
        return StreamForm(rate_hz, num_channels, 24, wanted.compression_level, wanted.opus_bitrate)
    if rate_hz > MAX_SAMPLE_RATE_HZ or (rate_hz >= 1 << 16 and rate_hz % 10):  # RFC 9639, section 7
        raise AudioError(
            AudioReject.UNSUPPORTED, f"FLAC cannot stream {rate_hz} Hz: set audio.sample_rate to a common rate"
        )
    return StreamForm(rate_hz, num_channels, wanted.output_bits(info), wanted.compression_level)


def encoded_as(segment: Segment, payload: bytes | BinaryIO, num_bytes: int, form: StreamForm) -> EncodedSegment:
    """The encoded segment with its facts. Of a small one also the CRC-32, because this runs on several threads."""
    is_flac = form.codec is Codec.FLAC  # Ogg streams get a serial number later
    return EncodedSegment(
        payload=payload,
        num_bytes=num_bytes,
        num_frames=segment.num_frames,
        sample_rate_hz=form.sample_rate_hz,
        num_channels=form.num_channels,
        bits_per_sample=form.bits if is_flac else None,
        extension=form.codec.value,
        crc32=checksums.crc32(payload) if is_flac and isinstance(payload, bytes) else None,
    )
