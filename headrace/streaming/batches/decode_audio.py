"""Decodes the audio of samples to float32: into a row of a batch (`fill_audio`), or as a sample's fields."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from headrace.audio import (
    EncodedAudio,
    MemberFile,
    PartFacts,
    SeekPoints,
    decode_flac_into,
    decode_flac_part,
    decode_part,
    known_flac,
    open_encoded,
    without_tag,
)
from headrace.errors import AudioError, SampleError
from headrace.format.indexes.audio_fields import AUDIO, AudioFacts, common_facts, of_field
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.sample_bytes import Around
from headrace.streaming.batches.user_fields import as_users
from headrace.streaming.samples.crop import FrameWindow, SampleCrop
from headrace.streaming.samples.fields import AUDIO_NAMES
from headrace.streaming.samples.plausibility import check_encoded, check_flac, check_header, check_rate
from headrace.streaming.samples.stored_sample import StoredAudio, StoredSample
from headrace.streaming.settings import SampleSettings

_MOST_OF_PARTS = 2  # half of a file is decoded as a whole, and its bytes are compared with their checksum
_BLOCK_BYTES = 16 << 10
LEAST_BYTES = 1 << 10
"""Bytes that are read at a time at least, where seek points are known."""

Sounds = dict[str, NDArray[np.float32]]
"""Audio fields by name, (channels, frames)."""


def fill_audio(
    sample: StoredSample, field: StoredAudio, around: Around, out: NDArray[np.float32], window: FrameWindow
) -> None:
    """Decode `window` of an audio file into `out` (channels, frames), and write zeros after it.

    Args:
        sample: the sample.
        field: its audio field.
        around: what `read_around` has read of the sample.
        out: is filled.
        window: frames of the file.

    Raises:
        AudioError: it cannot be decoded, or differs from its index.
    """
    try:
        if not _filled_by_part(sample, field, out, window):
            _fill_audio(sample, field, sample.payload(field, *around), out, window)
    except AudioError as error:
        if field.name == AUDIO:
            raise
        raise of_field(field.name, error) from error


def _filled_by_part(sample: StoredSample, field: StoredAudio, out: NDArray[np.float32], window: FrameWindow) -> bool:
    """Whether a part of a long audio file could be decoded without the rest; it is not compared with its checksum."""
    first, count = window
    if not sample.in_parts(field) or _MOST_OF_PARTS * count > field.num_frames:
        return False
    shard, (start, stop) = sample.opened(), field.span
    points = sample.seek_points(field)
    block_bytes = _BLOCK_BYTES if points is None else LEAST_BYTES
    file = MemberFile(lambda begin, end: shard.read(start + begin, start + end), stop - start, block_bytes)
    facts = PartFacts(field.num_frames, sample.sample_rate_hz, field.num_channels)
    if not decode_part(file, facts, out[:, :count], first, points and SeekPoints(*points)):
        return False
    out[:, count:] = 0
    return True


def _fill_audio(
    sample: StoredSample, field: StoredAudio, blob: memoryview, out: NDArray[np.float32], window: FrameWindow
) -> None:
    first, count = window
    bare = memoryview(without_tag(blob))
    if (info := known_flac(bare)) is None:
        sample.checked(field.column, blob)
        with open_encoded(bare) as audio:
            check_encoded(sample, field, audio.info)
            audio.read_into(out[:, :count], first)
        out[:, count:] = 0
        return
    check_header(sample, field, info)
    if count < info.num_frames and sample.has_checksum(field.column):
        sample.checked(field.column, blob)
        decode_flac_into(bare, out[:, :count], first, count)
    else:
        decode_flac_part(bare, out[:, :count], first)
    out[:, count:] = 0


def audio_fields(sample: StoredSample, around: Around, crop: SampleCrop, config: SampleSettings) -> Sample:
    """The audio fields of a sample, cut at the same frames, with `sample_rate` and, for a crop, `frame_offset`."""
    fields = sample.audio()
    if len(fields) != len(sample.columns.audio):
        _raise_lacking(sample, fields)
    made, rate_hz = _cut_audio(sample, around, crop, 0)
    if config.crop_min_dbfs is not None and not crop.is_whole:
        made = _loud_audio(made, config, lambda draw: _cut_audio(sample, around, crop, draw)[0])
    found: Sample = {"sample_rate": config.sample_rate_hz or rate_hz}
    for name, samples in made.items():
        found[name] = as_users(_resampled(samples, rate_hz, config.sample_rate_hz), "float32", config.output)
    if crop.cuts:
        found["frame_offset"] = crop.first_frame
    if len(fields) > 1 or fields[0].name != AUDIO:
        found[AUDIO_NAMES] = tuple(field.name for field in fields)
    return found


def _loud_audio(first: Sounds, config: SampleSettings, draw_again: Callable[[int], Sounds]) -> Sounds:
    """The first draw that is loud enough; else the loudest, which is drawn again so that the crop is that of it."""
    assert config.crop_min_dbfs is not None
    drawn, levels = first, [_level(first)]
    while levels[-1] < config.crop_min_dbfs and len(levels) < config.crop_draws:
        drawn = draw_again(len(levels))
        levels.append(_level(drawn))
    return drawn if levels[-1] >= config.crop_min_dbfs else draw_again(int(np.argmax(levels)))


def _level(sounds: Sounds) -> float:
    """RMS level of the loudest audio field, dB of full scale; -inf for silence."""
    power = max(float(np.mean(np.square(samples, dtype=np.float64))) for samples in sounds.values())
    return 10 * math.log10(power) if power else -math.inf


def _cut_audio(sample: StoredSample, around: Around, crop: SampleCrop, draw: int) -> tuple[Sounds, int]:
    """The audio fields of a sample, cut at the same frames, and their rate in Hz."""
    with ExitStack() as stack:
        opened = [_OpenAudio.of(sample, field, around, stack) for field in sample.audio()]
        common = common_facts({audio.field.name: audio.facts for audio in opened})
        known = sample.num_frames if sample.num_frames > 0 else common.num_frames  # fields that are not read count, too
        window = crop.primary(min(common.num_frames, known), common.sample_rate_hz, draw)
        return {audio.field.name: audio.read(window) for audio in opened}, common.sample_rate_hz


def _raise_lacking(sample: StoredSample, fields: Sequence[StoredAudio]) -> None:
    found = [field.name for field in fields]
    lacking = next(field.name for field in sample.columns.audio if field.name not in found)
    raise SampleError(f"it has no audio field {lacking!r}, only {', '.join(found)}; write the sample again")


@dataclass(slots=True)
class _OpenAudio:
    """An audio payload whose facts are known, and which is about to be decoded.

    Attributes:
        sample: the sample that it is of.
        field: the audio field that it holds.
        around: what was read of the sample.
        facts: its length, rate and channels.
        encoded: its decoder; None for FLAC.
    """

    sample: StoredSample
    field: StoredAudio
    around: Around
    facts: AudioFacts
    encoded: EncodedAudio | None = None

    @classmethod
    def of(cls, sample: StoredSample, field: StoredAudio, around: Around, stack: ExitStack) -> "_OpenAudio":
        """Read the facts, which the index has of audio in parts; `stack` closes the decoder. Raises `AudioError`."""
        indexed = AudioFacts(field.num_frames, sample.sample_rate_hz, field.num_channels)
        if sample.in_parts(field) and min(indexed) > 0:
            return cls(sample, field, around, indexed)
        try:
            blob = memoryview(without_tag(sample.payload(field, *around)))
            if (info := known_flac(blob)) is not None:
                check_flac(blob, info)
                return cls(sample, field, around, AudioFacts(*info[:3]))
            encoded = stack.enter_context(open_encoded(sample.checked(field.column, blob)))
            check_encoded(sample, field, encoded.info)
        except AudioError as error:
            if field.name == AUDIO:
                raise
            raise of_field(field.name, error) from error
        facts = AudioFacts(encoded.info.num_frames, encoded.info.sample_rate_hz, encoded.info.num_channels)
        return cls(sample, field, around, facts, encoded)

    def read(self, window: FrameWindow) -> NDArray[np.float32]:
        """The frames of a window, float32 (channels, frames). Raises `AudioError`."""
        first, count = window
        out = np.empty((self.facts.num_channels, count), np.float32)
        if self.encoded is None:
            fill_audio(self.sample, self.field, self.around, out, window)
            return out
        try:
            self.encoded.read_into(out, first)
        except AudioError as error:
            if self.field.name == AUDIO:
                raise
            raise of_field(self.field.name, error) from error
        return out


def _resampled(samples: NDArray[np.float32], rate: int, wanted: int | None) -> NDArray[np.float32]:
    if wanted is None or rate == wanted:
        return samples
    check_rate(rate)
    return np.ascontiguousarray(soxr.resample(samples.T, rate, wanted, quality="HQ").T)
