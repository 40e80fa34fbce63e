"""Makes a sample with arrays of its own from its bytes: audio, latents, other files, JSON and columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import ConfigError, SampleError
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.decode_audio import audio_fields
from headrace.streaming.batches.decode_latents import cropped_latents, latents_beside_audio, stored_latents_of
from headrace.streaming.batches.events import drawn_events, intervals_of
from headrace.streaming.batches.sample_bytes import extra, metadata, read_around
from headrace.streaming.batches.user_fields import as_users
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, stated_outputs
from headrace.streaming.samples.crop import SampleCrop
from headrace.streaming.samples.decoded_fields import decoded
from headrace.streaming.samples.fields import START_SECONDS
from headrace.streaming.samples.missing_latents import check_latents
from headrace.streaming.samples.stored_sample import BatchRow, StoredSample
from headrace.streaming.settings import ArrayType, Decode, SampleSettings


def read_sample(row: BatchRow, outputs: Sequence[OutputField], crop: SampleCrop, config: SampleSettings) -> Sample:
    """One sample before the transform, with torch tensors, or numpy arrays if the config says so.

    Args:
        row: byte ranges of the sample.
        outputs: the fields of the stream's own latents, then of each output that is joined.
        crop: frames to keep.
        config: the rate to resample to, and the kind of arrays.

    Raises:
        SampleError: a joined folder lacks the sample, or its latents were rejected; or it lacks an audio field, or all
            audio, which others have.
        ConfigError: a crop needs a rate that is unknown, or the sample has audio and latents in one folder.
        AudioError: the audio cannot be decoded, or its fields differ in rate or length.
        FormatError: a `.pth` without audio beside it holds no latents, or the `.json` is not JSON.
        IntegrityError: the shard is shorter than its index says.
    """
    check_latents(row)
    stored = row.primary
    _check_draws(stored, config)
    _check_audio(stored, config)
    start, blob = read_around(stored)
    sample: Sample = {"__key__": stored.key}
    about = metadata(stored, start, blob)
    if stored.audio():
        sample |= audio_fields(stored, (start, blob), crop, config)
        if stored.span(stored.columns.latents) is not None:
            sample |= latents_beside_audio(stored, stated_outputs(about), crop, config)
    elif stored.columns.latents is not None or stored.tensor is not None:
        latents = stored_latents_of(stored)
        sample |= cropped_latents(latents, crop.own(len(latents[0])), outputs[0], crop, config)
    elif row.rasters or (crop.cuts and (row.joined or row.window or intervals_of(row) or crop.is_measured)):
        crop.place()
    sample |= _joined_latents(row, outputs, crop, config)
    for name, content in extra(stored, start, blob):
        sample[name] = decoded(name, content) if config.decode is Decode.BASIC else content
    if crop.cuts:
        sample[START_SECONDS] = crop.start_seconds
    sample["metadata"] = about
    return sample | _columns(row, crop, about, config) | _named(outputs, sample)


def _check_draws(stored: StoredSample, config: SampleSettings) -> None:
    if config.crop_min_dbfs is not None and not stored.audio():
        raise ConfigError(f"{stored.called}: crop_min_dbfs needs the audio: read it as well, or leave it out")


def _check_audio(stored: StoredSample, config: SampleSettings) -> None:
    """Raise `SampleError` for a sample without audio among others, which only a transform can make one of them."""
    if stored.is_of_audio and not stored.audio() and config.transform is None:
        raise SampleError(
            'it has no audio, and others have: on_bad_sample="skip" leaves such samples out, fields=["metadata"] reads '
            "the rest of all samples, and with a transform they come as they are"
        )


def _joined_latents(row: BatchRow, outputs: Sequence[OutputField], crop: SampleCrop, config: SampleSettings) -> Sample:
    found: Sample = {}
    for number, (joined, field) in enumerate(zip(row.joined, outputs[1:], strict=True)):
        if joined is None:
            raise SampleError(f"the joined latents ({field.values}) do not have this sample")
        latents = stored_latents_of(joined)
        found |= cropped_latents(latents, crop.joined(number, len(latents[0])), field, crop, config)
    return found


def _columns(row: BatchRow, crop: SampleCrop, metadata: dict[str, Any], config: SampleSettings) -> Sample:
    """The fields that columns and events are. Columns are added to `metadata`, and its events are cut."""
    found: Sample = {}
    if row.columns is not None:
        row.columns.add_to(metadata)
        found = {tensor.spec.name: _number(value, tensor.dtype, config) for tensor, value in row.columns.numbers()}
    grids = drawn_events(row, crop, metadata)
    return found | {name: as_users(grid, grid.dtype.name, config.output) for name, grid in grids.items()}


def _named(outputs: Sequence[OutputField], sample: Sample) -> Sample:
    """The field of a sample that lists its named outputs; nothing if it has none."""
    found = dict(sample.get(OUTPUT_FIELDS, {}))
    found |= {field.values: field for field in outputs if field.is_named and field.values in sample}
    return {OUTPUT_FIELDS: found} if found else {}


def _number(value: float | list[float], dtype: str, config: SampleSettings) -> Any:  # noqa: ANN401 - as `_shown`
    """A number as a tensor without axes, or as a number of numpy; a list as a tensor or array (D,)."""
    array = np.array(value, dtype)
    if config.output is ArrayType.NUMPY:
        return array[()]
    import torch

    return torch.from_numpy(array)
