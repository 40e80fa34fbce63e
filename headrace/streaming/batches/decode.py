"""From a sample's bytes to arrays, into a row of the batch or into an array of its own.

Owns what a sample becomes: FLAC and other audio to float32, stored latents to their raw values, JSON to metadata.
Reading is `opened`'s, batching `batch`'s.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from headrace.audio import decode as decode_any
from headrace.audio import decode_flac_into, whole_flac_info
from headrace.errors import AudioError, ConfigError, FormatError, SampleError
from headrace.pth import stored_latents
from headrace.streaming.batches.batch import BFLOAT16, Sample, as_numpy, storage_dtype, widen_bfloat16
from headrace.streaming.batches.bounds import check_flac, check_length, check_rate, check_tensor
from headrace.streaming.batches.crop import Cut, Window
from headrace.streaming.batches.rows import Part, Row
from headrace.streaming.settings import Output, SampleConfig
from headrace.streaming.shards.coalesce import Span

_BYTE_ORDER_MARK = "\ufeff"
_JSON = json.JSONDecoder()  # json.loads would guess encodings

Around = tuple[int, memoryview]
"""What a sample needs besides raw latents: where in the shard it starts, and the bytes."""


def read_sample(row: Row, suffixes: tuple[str, ...], cut: Cut, config: SampleConfig) -> Sample:
    """One sample as users see it, before the transform: arrays are torch's, or numpy's if the config says so.

    Args:
        row: where its bytes lie.
        suffixes: what is added to `encoder_hidden` for the primary and for each joined part.
        cut: which part of it to keep.
        config: the rate to resample to, and what arrays are made of.

    Raises:
        SampleError: a joined folder lacks the sample.
        ConfigError: a crop needs a rate that is unknown, or would cut audio that holds its latents beside it.
        AudioError: the audio cannot be decoded.
        FormatError: the `.pth` holds no latents, or the `.json` no JSON.
        IntegrityError: the shard is shorter than its index says.
    """
    part = row.primary
    start, blob = read_around(part)
    sample: Sample = {"__key__": part.key}
    if (found := part.audio()) is not None:
        span, _ = found
        samples, rate, first = _audio(blob[span[0] - start : span[1] - start], cut)
        samples, sample["sample_rate"] = _resampled(samples, rate, config.sample_rate_hz)
        sample["audio"] = _shown(samples, "float32", config.output)
        if config.crops:
            sample["frame_offset"] = first
        if part.span(part.layout.latents) is not None:
            sample |= _latents_of_audio(part, config)
    elif part.layout.latents is not None:
        latents = _latents(part)
        sample |= _cut_latents(latents, cut.primary(len(latents[0]), part.latent_rate_hz), "", config)
    for number, (joined, suffix) in enumerate(zip(row.joined, suffixes[1:], strict=True)):
        if joined is None:
            raise SampleError(f"the joined latents (encoder_hidden{suffix}) do not have this sample")
        latents = _latents(joined)
        sample |= _cut_latents(latents, cut.joined(number, len(latents[0])), suffix, config)
    for name, span in part.extra():
        sample[name] = bytes(blob[span[0] - start : span[1] - start])
    sample["metadata"] = metadata(part, start, blob)
    return sample


def read_around(part: Part) -> Around:
    """All that a sample needs but raw latents, which are read straight to where they belong, in one read."""
    start, stop = _span_around(part)
    return start, part.opened().read(start, stop)


def _span_around(part: Part) -> Span:
    columns = part.layout.beside_latents if part.tensor is not None else range(len(part.spans) // 2)
    if len(columns) == 1:
        return part.span(columns[0]) or (0, 0)
    present = [span for column in columns if (span := part.span(column)) is not None]
    if not present:
        return 0, 0
    return min(start for start, _ in present), max(stop for _, stop in present)


def fill_flac(blob: memoryview, out: NDArray[np.float32], window: Window) -> None:
    """Decode `window` of a FLAC payload into `out` (channels, frames), zeros after it.

    Raises:
        AudioError: it cannot be decoded, or is shorter than its index says.
    """
    first, count = window
    decoded = decode_flac_into(blob, out[:, :count], first, count)
    if decoded != count:
        raise AudioError("truncated", f"{decoded} frames decoded, {count} promised: build or fetch the shard again")
    out[:, count:] = 0


def fill_latents(part: Part, out: NDArray[Any], window: Window) -> None:
    """Copy `window` of the raw latents into `out` (T, D), zeros after it and after `encoder_length`.

    Raises:
        FormatError: there are fewer latents than `encoder_length`.
    """
    first, count = window
    if part.tensor is not None:
        start, stop, num_frames, _ = part.tensor
        check_length(part.num_frames, num_frames)
        if count := max(0, min(part.num_frames - first, count)):
            part.opened().read_into(start + first * ((stop - start) // num_frames), out[:count].data.cast("B"))
    if count < len(out):
        out[count:] = 0


def metadata(part: Part, start: int, blob: memoryview) -> dict[str, Any]:
    """The sample's JSON, from `blob`, which begins at byte `start` of the shard; `{}` without one.

    Raises:
        FormatError: it is none.
    """
    span = part.span(part.layout.json)
    if span is None:
        return {}
    return metadata_of(blob[span[0] - start : span[1] - start])


def metadata_of(blob: bytes | memoryview) -> dict[str, Any]:
    """What a sample's `.json` says, see `parsed`. Raises `FormatError` where it is no JSON."""
    try:
        return parsed(blob)
    except ValueError as error:
        raise FormatError(f"its .json holds no JSON ({error}): write it again") from error


def parsed(blob: bytes | memoryview) -> dict[str, Any]:
    """A JSON object from its bytes; anything else as the object's `json`. Raises `ValueError` where it is none."""
    text = str(blob, "utf-8").removeprefix(_BYTE_ORDER_MARK)
    try:
        found, end = _JSON.raw_decode(text)
    except json.JSONDecodeError:
        end = -1
    if end != len(text):
        found = _JSON.decode(text)  # there is space around it, or an error
    return found if isinstance(found, dict) else {"json": found}


def parsed_together(blob: bytes, ends: Sequence[int]) -> list[dict[str, Any]]:
    """What `parsed` makes of texts that lie end to end; `{}` of one without bytes.

    Args:
        blob: the texts.
        ends: where each ends.

    Raises:
        ValueError: one is no JSON.
    """
    text = blob.decode("ascii") if blob.isascii() else ""  # where each byte is a character, none is copied again
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
    """The object that is all of `text[start:end]`; None if it is anything else."""
    try:
        value, stop = _JSON.raw_decode(text, start)
    except json.JSONDecodeError:
        return None
    return value if stop == end and isinstance(value, dict) else None


def _audio(blob: memoryview, cut: Cut) -> tuple[NDArray[np.float32], int, int]:
    """float32 (channels, frames) of the window of an audio payload, its rate, and the window's first frame."""
    if bytes(blob[:4]) == b"fLaC":
        info = whole_flac_info(blob)
        num_frames, rate, channels, _ = info
        if num_frames > 0:
            check_flac(blob, info)
            first, count = cut.primary(num_frames, rate)
            out = np.empty((channels, count), np.float32)
            fill_flac(blob, out, (first, count))
            return out, rate, first
    samples, rate = decode_any(blob)
    first, count = cut.primary(samples.shape[1], rate)
    return samples[:, first : first + count], rate, first


def _resampled(samples: NDArray[np.float32], rate: int, wanted: int | None) -> tuple[NDArray[np.float32], int]:
    if wanted is None or rate == wanted:
        return samples, rate
    check_rate(rate)
    return np.ascontiguousarray(soxr.resample(samples.T, rate, wanted, quality="HQ").T), wanted


def _latents(part: Part) -> tuple[NDArray[Any], str, int]:
    """(T, D) in the stored dtype (bfloat16 as uint16), the dtype's name, and `encoder_length`."""
    if (tensor := part.tensor) is not None:
        check_tensor(part)
        hidden = np.empty((tensor.num_frames, tensor.width), storage_dtype(part.tensor_dtype))
        fill_latents(part, hidden, (0, tensor.num_frames))
        return hidden, part.tensor_dtype, part.num_frames
    span = part.span(part.layout.latents)
    if span is None:
        raise SampleError("the sample has neither audio nor latents")
    stored, length = stored_latents(bytes(part.opened().read(*span)))
    hidden, dtype = as_numpy(stored)
    check_length(length, len(hidden))
    if length < len(hidden):
        hidden = hidden.copy()  # rows of a tensor may share their memory
        hidden[length:] = 0
    return hidden, dtype, length


def _latents_of_audio(part: Part, config: SampleConfig) -> Sample:
    """The fields of latents that lie beside the audio in one sample, as other people's tars have them."""
    if config.crops:
        raise ConfigError(
            f"{part.shard_name}: its samples hold audio and latents in one, and nothing says how many latent frames a "
            "second has, so no crop can cut both alike: leave the crop out, and cut in a transform"
        )
    latents = _latents(part)
    return _cut_latents(latents, (0, len(latents[0])), "", config)


def _cut_latents(found: tuple[NDArray[Any], str, int], window: Window, suffix: str, config: SampleConfig) -> Sample:
    """The fields of a sample that say what a crop keeps of latents; see `_latents`."""
    hidden, dtype, length = found
    first, count = window
    fields = {"encoder_hidden": _shown(hidden[first : first + count], dtype, config.output)}
    fields["encoder_length"] = max(0, min(length - first, count))
    if config.crops:
        fields["encoder_offset"] = first
    return {name + suffix: value for name, value in fields.items()}


def _shown(array: NDArray[Any], dtype: str, output: Output) -> Any:  # noqa: ANN401 - torch is imported late
    """An array as users see it."""
    if output is Output.NUMPY:
        return widen_bfloat16(array) if dtype == BFLOAT16 else array
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.view(torch.bfloat16) if dtype == BFLOAT16 else tensor
