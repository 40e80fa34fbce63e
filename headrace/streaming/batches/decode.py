"""Decodes a sample's bytes: audio to float32, stored latents to arrays, JSON to metadata.

`read_sample` makes a sample with arrays of its own; `fill_audio` and `fill_latents` decode into a row of a batch.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from headrace.audio import (
    EncodedAudio,
    MemberFile,
    PartFacts,
    decode_flac_into,
    decode_part,
    known_flac,
    open_encoded,
    without_tag,
)
from headrace.errors import AudioError, ConfigError, FormatError, SampleError
from headrace.format.indexes.audio_fields import AUDIO, AudioFacts, common_facts, of_field
from headrace.format.tars.member_names import LATENT_FIELD
from headrace.format.tensors.pth import check_length, stored_latents
from headrace.format.tensors.tensors import BFLOAT16, storage_dtype, widen_bfloat16
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.events import drawn_events
from headrace.streaming.batches.user_fields import as_numpy
from headrace.streaming.cache.coalesce import Span
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, hidden_field
from headrace.streaming.samples.crop import FrameWindow, SampleCrop
from headrace.streaming.samples.decoded_fields import decoded
from headrace.streaming.samples.fields import AUDIO_NAMES, START_SECONDS
from headrace.streaming.samples.missing_latents import check_latents
from headrace.streaming.samples.plausibility import check_encoded, check_flac, check_header, check_rate
from headrace.streaming.samples.stored_sample import BatchRow, StoredAudio, StoredSample
from headrace.streaming.settings import ArrayType, Decode, SampleSettings

_BYTE_ORDER_MARK = "\ufeff"
_MOST_OF_PARTS = 2  # half of a file is decoded as a whole, and its bytes are compared with their checksum
_BLOCK_BYTES = 16 << 10
_JSON = json.JSONDecoder()  # json.loads would guess encodings

Sounds = dict[str, NDArray[np.float32]]
"""Audio fields by name, (channels, frames)."""
Around = tuple[int, memoryview]
"""The bytes of a sample's fields other than raw latents, and their first byte in the shard."""


def read_sample(row: BatchRow, outputs: Sequence[OutputField], crop: SampleCrop, config: SampleSettings) -> Sample:
    """One sample before the transform, with torch tensors, or numpy arrays if the config says so.

    Args:
        row: byte ranges of the sample.
        outputs: the fields of the stream's own latents, then of each output that is joined.
        crop: frames to keep.
        config: the rate to resample to, and the kind of arrays.

    Raises:
        SampleError: a joined folder lacks the sample, or its latents were rejected; or it lacks an audio field.
        ConfigError: a crop needs a rate that is unknown, or the sample has audio and latents in one folder.
        AudioError: the audio cannot be decoded, or its fields differ in rate or length.
        FormatError: a `.pth` without audio beside it holds no latents, or the `.json` is not JSON.
        IntegrityError: the shard is shorter than its index says.
    """
    check_latents(row)
    stored = row.primary
    _check_draws(stored, config)
    start, blob = read_around(stored)
    sample: Sample = {"__key__": stored.key}
    if stored.audio():
        sample |= _audio(stored, (start, blob), crop, config)
        if stored.span(stored.columns.latents) is not None:
            sample |= _beside_audio(stored, crop, config)
    elif stored.columns.latents is not None or stored.tensor is not None:
        latents = _latents(stored)
        window = crop.primary(len(latents[0]), stored.latent_rate_hz)
        sample |= _cropped_latents(latents, window, outputs[0], crop, config)
    elif row.rasters or (crop.cuts and (row.joined or row.window)):  # audio that is not wanted decides what is cut
        crop.primary(_length_of(stored), stored.sample_rate_hz)
    sample |= _joined_latents(row, outputs, crop, config)
    for name, content in extra(stored, start, blob):
        sample[name] = decoded(name, content) if config.decode is Decode.BASIC else content
    if crop.cuts and crop.is_placed:
        sample[START_SECONDS] = crop.start_seconds
    sample["metadata"] = metadata(stored, start, blob)
    return sample | _columns(row, crop, sample["metadata"], config) | _named(outputs, sample)


def _check_draws(stored: StoredSample, config: SampleSettings) -> None:
    if config.crop_min_dbfs is not None and not stored.audio():
        raise ConfigError(f"{stored.called}: crop_min_dbfs needs the audio: read it as well, or leave it out")


def _joined_latents(row: BatchRow, outputs: Sequence[OutputField], crop: SampleCrop, config: SampleSettings) -> Sample:
    found: Sample = {}
    for number, (joined, field) in enumerate(zip(row.joined, outputs[1:], strict=True)):
        if joined is None:
            raise SampleError(f"the joined latents ({field.values}) do not have this sample")
        latents = _latents(joined)
        found |= _cropped_latents(latents, crop.joined(number, len(latents[0])), field, crop, config)
    return found


def _columns(row: BatchRow, crop: SampleCrop, metadata: dict[str, Any], config: SampleSettings) -> Sample:
    """The fields that columns and events are. Columns are added to `metadata`, and its events are cut."""
    found: Sample = {}
    if row.columns is not None:
        row.columns.add_to(metadata)
        found = {tensor.spec.name: _number(value, tensor.dtype, config) for tensor, value in row.columns.numbers()}
    grids = drawn_events(row, crop, metadata)
    return found | {name: _shown(grid, grid.dtype.name, config.output) for name, grid in grids.items()}


def _named(outputs: Sequence[OutputField], sample: Sample) -> Sample:
    """The field of a sample that lists its named outputs; nothing if it has none."""
    found = {field.values: field for field in outputs if field.is_named and field.values in sample}
    return {OUTPUT_FIELDS: found} if found else {}


def read_around(sample: StoredSample) -> Around:
    """Read all fields of a sample in one read, except raw latents, which are read directly into their array."""
    if sample.columns.is_narrowed or any(map(sample.in_parts, sample.audio())):
        return _read_parts(sample)
    start, stop = _span_around(sample)
    return start, sample.opened().read(start, stop)


def _read_parts(sample: StoredSample) -> Around:
    """Read the fields of a sample as `read_around` does, without the bytes between the fields."""
    columns = sample.columns.beside_latents if sample.tensor is not None else range(len(sample.spans) // 2)
    in_parts = {field.column for field in sample.audio() if sample.in_parts(field)}
    spans = [span for column in columns if column not in in_parts and (span := sample.span(column)) is not None]
    begin = min((start for start, _ in spans), default=0)
    blob = np.empty(max((stop for _, stop in spans), default=0) - begin, np.uint8).data
    for start, stop in spans:
        sample.opened().read_into(start, blob[start - begin : stop - begin])
    return begin, blob


def _length_of(sample: StoredSample) -> int:
    """Frames of a sample that is not decoded. Raises `ConfigError` if its index does not know them."""
    if sample.num_frames < 0:
        raise ConfigError(
            f"{sample.called}: the index does not know its length, and latents are cut with the audio: read the audio "
            "as well (fields=…), or leave the crop out"
        )
    return sample.num_frames


def _span_around(sample: StoredSample) -> Span:
    columns = sample.columns.beside_latents if sample.tensor is not None else range(len(sample.spans) // 2)
    if len(columns) == 1:
        return sample.span(columns[0]) or (0, 0)
    present = [span for column in columns if (span := sample.span(column)) is not None]
    if not present:
        return 0, 0
    return min(start for start, _ in present), max(stop for _, stop in present)


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
    file = MemberFile(lambda begin, end: shard.read(start + begin, start + end), stop - start, _BLOCK_BYTES)
    facts = PartFacts(field.num_frames, sample.sample_rate_hz, field.num_channels)
    if not decode_part(file, facts, out[:, :count], first):
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
    decoded = decode_flac_into(bare, out[:, :count], first, count)
    if decoded != count:
        raise AudioError("truncated", f"{decoded} frames decoded, {count} promised: build or fetch the shard again")
    out[:, count:] = 0


def fill_latents(sample: StoredSample, out: NDArray[Any], window: FrameWindow, padding: int = 0) -> None:
    """Copy `window` of the raw latents into `out` (T, D), and write padding after it and after `encoder_length`.

    Raises:
        FormatError: there are fewer latent frames than `encoder_length`.
        IntegrityError: all values were read, and do not have the CRC-32 of the index.
    """
    first, count = window
    if sample.tensor is not None:
        start, stop, num_frames, _ = sample.tensor
        check_length(sample.num_frames, num_frames)
        if count := max(0, min(sample.num_frames - first, count)):
            values = out[:count].data.cast("B")
            sample.opened().read_into(start + first * ((stop - start) // num_frames), values)
            if count == num_frames:
                sample.check_tensor(values)
    if count < len(out):
        out[count:] = padding


def extra(sample: StoredSample, start: int, blob: memoryview) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the fields other than audio, latents and JSON, from `blob`; see `metadata`.

    Raises:
        ConfigError: a batch has a field of that name of its own.
        IntegrityError: a field does not have its checksum.
    """
    for name, column, (first, last) in sample.extra():
        yield name, bytes(sample.checked(column, blob[first - start : last - start]))


def metadata(sample: StoredSample, start: int, blob: memoryview) -> dict[str, Any]:
    """The sample's JSON, from `blob`, which begins at byte `start` of the shard; `{}` for a sample without JSON.

    Raises:
        FormatError: it is not valid JSON.
        IntegrityError: it does not have its checksum.
    """
    column = sample.columns.json
    span = sample.span(column)
    if column is None or span is None:
        return {}
    return metadata_of(sample.checked(column, blob[span[0] - start : span[1] - start]))


def metadata_of(blob: bytes | memoryview) -> dict[str, Any]:
    """The content of a sample's `.json`; see `parsed`. Raises `FormatError` if it is not valid JSON."""
    try:
        return parsed(blob)
    except ValueError as error:
        raise FormatError(f"its .json is not valid JSON ({error}): write it again") from error


def parsed(blob: bytes | bytearray | memoryview) -> dict[str, Any]:
    """A JSON object from its bytes; another JSON value as `{"json": value}`. Raises `ValueError` if it is not JSON."""
    text = str(blob, "utf-8").removeprefix(_BYTE_ORDER_MARK)
    try:
        try:
            found, end = _JSON.raw_decode(text)
        except json.JSONDecodeError:
            end = -1
        if end != len(text):
            found = _JSON.decode(text)  # spaces around the value, or an error
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error
    return found if isinstance(found, dict) else {"json": found}


def parsed_together(blob: bytes | bytearray, ends: Sequence[int]) -> list[dict[str, Any]]:
    """`parsed` for many texts; `{}` for a text without bytes.

    Args:
        blob: the texts, end to end.
        ends: where each text ends.

    Raises:
        ValueError: a text is not JSON.
    """
    text = blob.decode("ascii") if blob.isascii() else ""  # in ASCII a byte is a character: no text is copied again
    found: list[dict[str, Any]] = []
    start = 0
    for end in ends:
        value = _object_at(text, start, end) if text else None
        if value is None:
            value = parsed(blob[start:end]) if end > start else {}
        found.append(value)
        start = end
    return found


def _object_at(text: str, start: int, end: int) -> dict[str, Any] | None:
    """The object in `text[start:end]`; None if that is anything else than exactly one object."""
    try:
        value, stop = _JSON.raw_decode(text, start)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if stop == end and isinstance(value, dict) else None


def _audio(sample: StoredSample, around: Around, crop: SampleCrop, config: SampleSettings) -> Sample:
    """The audio fields of a sample, cut at the same frames, with `sample_rate` and, for a crop, `frame_offset`."""
    fields = sample.audio()
    if len(fields) != len(sample.columns.audio):
        _raise_lacking(sample, fields)
    made, rate_hz = _cut_audio(sample, around, crop, 0)
    if config.crop_min_dbfs is not None and not crop.is_whole:
        made = _loud_audio(made, config, lambda draw: _cut_audio(sample, around, crop, draw)[0])
    found: Sample = {"sample_rate": config.sample_rate_hz or rate_hz}
    for name, samples in made.items():
        found[name] = _shown(_resampled(samples, rate_hz, config.sample_rate_hz), "float32", config.output)
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


def _latents(sample: StoredSample) -> tuple[NDArray[Any], str, int]:
    """Latents (T, D) in the stored dtype (bfloat16 as uint16), the dtype's name, and `encoder_length`."""
    if (tensor := sample.tensor) is not None:
        hidden = np.empty((tensor.num_frames, tensor.width), storage_dtype(sample.tensor_dtype))
        fill_latents(sample, hidden, (0, tensor.num_frames))
        return hidden, sample.tensor_dtype, sample.num_frames
    if (content := _latent_file(sample)) is None:
        raise SampleError("the sample has neither audio nor latents")
    stored, length = stored_latents(content)
    hidden, dtype = as_numpy(stored)
    if length < len(hidden):
        hidden = hidden.copy()  # rows of a stored tensor may share their memory
        hidden[length:] = 0
    return hidden, dtype, length


def _latent_file(sample: StoredSample) -> bytes | None:
    """The `.pth` of a sample, compared with its checksum; None without one."""
    column = sample.columns.latents
    if column is None or (span := sample.span(column)) is None:
        return None
    return bytes(sample.checked(column, sample.opened().read(*span)))


def _beside_audio(sample: StoredSample, crop: SampleCrop, config: SampleSettings) -> Sample:
    """The fields of latents that are in the same sample as audio, as in other people's tars.

    A `.pth` without latents is returned as bytes: a reader of the audio may not need it.
    """
    try:
        latents = _latents(sample)
    except FormatError:
        if sample.tensor is not None or (content := _latent_file(sample)) is None:
            raise  # according to the index it has latents
        return {LATENT_FIELD: decoded(LATENT_FIELD, content) if config.decode is Decode.BASIC else content}
    if crop.cuts:
        raise ConfigError(
            f"{sample.shard_name}: its samples hold audio and latents in one, and nothing says how many latent frames "
            "a second has, so no crop or window can cut both alike: leave it out, and cut in a transform"
        )
    return _cropped_latents(latents, (0, len(latents[0])), hidden_field(), crop, config)


def _cropped_latents(
    found: tuple[NDArray[Any], str, int],
    window: FrameWindow,
    field: OutputField,
    crop: SampleCrop,
    config: SampleSettings,
) -> Sample:
    """The fields of latents in a sample, cropped to `window`; see `_latents`."""
    hidden, dtype, length = found
    first, count = window
    if not field.has_time:
        return {field.values: _shown(hidden[0] if len(hidden) else _no_vector(hidden), dtype, config.output)}
    fields = {field.values: _shown(hidden[first : first + count], dtype, config.output)}
    fields[field.length] = max(0, min(length - first, count))
    if crop.cuts:
        fields[field.offset] = first
    return fields


def _no_vector(rows: NDArray[Any]) -> NDArray[Any]:
    """Zeros in place of a vector that was rejected when it was made."""
    return np.zeros(rows.shape[1], rows.dtype)


def _number(value: float, dtype: str, config: SampleSettings) -> Any:  # noqa: ANN401 - as `_shown`
    """A number as a tensor without axes, or as a number of numpy."""
    array = np.array(value, dtype)
    if config.output is ArrayType.NUMPY:
        return array[()]
    import torch

    return torch.from_numpy(array)


def _shown(array: NDArray[Any], dtype: str, output: ArrayType) -> Any:  # noqa: ANN401 - torch is imported late
    """An array in the form that users get: a tensor, or a numpy array with bfloat16 widened to float32."""
    if output is ArrayType.NUMPY:
        return widen_bfloat16(array) if dtype == BFLOAT16 else array
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.view(torch.bfloat16) if dtype == BFLOAT16 else tensor
