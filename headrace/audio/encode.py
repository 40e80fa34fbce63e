"""Encodes segments of a recording as FLAC or Opus, in bounded memory, or keeps the recording's own bytes.

A segment is decoded, mixed, resampled and rounded as needed. libsndfile and soxr release the GIL, so callers can encode
several recordings at once on threads.
"""

import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from headrace.audio.codecs import FLAC_EXTENSION, kept_extension
from headrace.audio.flac import flac_info
from headrace.audio.flac_sound import open_flac
from headrace.audio.forms import (
    MAX_CHANNELS,
    MAX_OPUS_CHANNELS,
    MAX_SAMPLE_RATE_HZ,
    OPUS_RATES_HZ,
    AudioFormat,
    AudioInfo,
    AudioOrigin,
    AudioReject,
    Codec,
    EncodedSegment,
    Segment,
)
from headrace.audio.levels import Samples, to_mono, to_pcm
from headrace.audio.opening import open_sound
from headrace.audio.reader import FrameReader, covers, native_dtype, overlap_of, read_to_end
from headrace.audio.resampling import dtype_for, resampled
from headrace.audio.segments import SourceWindow, resampling_window
from headrace.audio.sound import position_kept
from headrace.audio.tags import behind_tag
from headrace.audio.writer import StreamForm, copy_file, write_stream
from headrace.errors import AudioError

BLOCK_SAMPLES = 1 << 20  # decoded at a time: bounds the memory; a short clip is one read and one write
_FLAC_HEAD_BYTES = 42
_FLAC = "FLAC"


def encode_segments(
    file: BinaryIO,
    info: AudioInfo,
    wanted: AudioFormat,
    segments: Sequence[Segment],
    *,
    block_samples: int = BLOCK_SAMPLES,
) -> Generator[EncodedSegment, None, None]:
    """Encode segments of a recording, lazily, in the given order, which must be ascending.

    A segment's bytes depend neither on the other segments nor on `block_samples`. Integers that fit are kept bit for
    bit; others are rounded and clipped (`levels.to_pcm`). A segment is resampled with the audio around it, so that
    joined segments equal the resampled whole within one step of the output. A source that is already FLAC in the wanted
    form, with one segment over all of it, is decoded once to check it and then copied byte for byte; so are other
    sources with `codec: copy` (`codecs.kept_extension`). Ogg streams have the serial number 0 (`with_serial`).

    Args:
        file: the recording, seekable. The caller must not read it meanwhile. Its position is restored.
        info: result of `probe` for this recording.
        wanted: format in the shard.
        segments: from `plan_segments`.
        block_samples: number of samples (frames times channels) to decode at a time.

    Raises:
        AudioError: `truncated`, `undecodable`, `non_finite`; or `unsupported` if the wanted format is not possible;
            the message names the YAML key to change.
        BuildError: the encoder or the disk failed.
    """
    if not segments:
        return
    form = form_of(info, wanted)
    recording, file = file, behind_tag(file)
    block_frames = max(1, block_samples // info.num_channels)
    extension = _extension_of_copy(file, info, wanted, form, segments)
    if extension is not None and file is recording:  # not every reader skips a tag
        _prove_whole(file, info, block_frames)
        yield _copied(file, info, extension)
        return
    job = Conversion(info, form)
    windows = [job.window(segment) for segment in segments]
    overlap = overlap_of(windows)
    is_whole_flac = info.container == _FLAC and covers(windows, info.num_frames)
    with open_flac(file, info) if is_whole_flac else open_sound(file) as sound:
        reader = FrameReader(sound, info, dtype=job.reading_dtype, block_frames=block_frames, keep=overlap)
        for segment, window in zip(segments, windows, strict=True):
            blocks = job.prepared(reader.blocks(window.start_frame, window.stop_frame), segment, window)
            payload, num_bytes = write_stream(blocks, segment.num_frames, form)
            yield encoded_as(segment, payload, num_bytes, form)


def proves(info: AudioInfo, wanted: AudioFormat, segments: Sequence[Segment]) -> bool:
    """Whether `encode_segments` with these segments checks the whole recording; if not, `prove` does.

    Only FLAC has a checksum of the whole audio, which can be checked only by decoding all of it from the beginning.
    """
    if info.container != _FLAC:
        return True
    try:
        job = Conversion(info, form_of(info, wanted))
    except AudioError:  # `encode_segments` raises the same error
        return True
    return covers([job.window(segment) for segment in segments], info.num_frames)


def prove(file: BinaryIO, info: AudioInfo, *, block_samples: int = BLOCK_SAMPLES) -> None:
    """Check that a whole FLAC recording has the number of frames and the MD5 of its header, by decoding it.

    Other formats are not checked. `proves` reports whether `encode_segments` makes this check by itself.

    Args:
        file: the recording; its position is restored.
        info: result of `probe` for this recording.
        block_samples: number of samples (frames times channels) to decode at a time.

    Raises:
        AudioError: `truncated` or `undecodable`.
    """
    if info.container == _FLAC:
        _prove_whole(behind_tag(file), info, max(1, block_samples // info.num_channels))


def _prove_whole(file: BinaryIO, info: AudioInfo, block_frames: int) -> None:
    """Decode a whole recording, to check that it is complete, undamaged and finite."""
    with open_flac(file, info) if info.container == _FLAC else open_sound(file) as sound:
        read_to_end(FrameReader(sound, info, dtype=native_dtype(info), block_frames=block_frames), info.num_frames)


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


def _extension_of_copy(
    file: BinaryIO, info: AudioInfo, wanted: AudioFormat, form: StreamForm, segments: Sequence[Segment]
) -> str | None:
    """The extension of a sample that has the recording's own bytes; None if the segments have to be encoded."""
    if list(segments) != [Segment(segments[0].index, 0, info.num_frames)]:
        return None
    extension = kept_extension(info, wanted, segments[0])
    if info.container != _FLAC or wanted.codec is Codec.OPUS:
        return extension
    if extension is None and (form.sample_rate_hz, form.num_channels, form.bits) != _form_of(info):
        return None
    return FLAC_EXTENSION if _is_plain_flac(file, info) else None


def _is_plain_flac(file: BinaryIO, info: AudioInfo) -> bool:
    """Whether the header of a FLAC file has the recording's length and form."""
    with position_kept(file):
        file.seek(0)
        head = file.read(_FLAC_HEAD_BYTES)
    return flac_info(head) == (info.num_frames, *_form_of(info))


def _form_of(info: AudioInfo) -> tuple[int, int, int | None]:
    return info.sample_rate_hz, info.num_channels, info.bits_per_sample


def _copied(file: BinaryIO, info: AudioInfo, extension: str) -> EncodedSegment:
    with position_kept(file):
        file.seek(0)
        payload, num_bytes = copy_file(file)
    return EncodedSegment(payload, num_bytes, info.num_frames, *_form_of(info), extension, AudioOrigin.RECORDING)


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
        crc32=zlib.crc32(payload) if is_flac and isinstance(payload, bytes) else None,
    )
