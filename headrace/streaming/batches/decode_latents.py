"""Reads the latents of samples: into a row of a batch (`fill_latents`), or as a sample's fields."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, FormatError, SampleError
from headrace.format.tars.member_names import LATENT_FIELD
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.pth import check_length, stored_latents, stored_outputs
from headrace.format.tensors.tensors import storage_dtype
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.user_fields import as_numpy, as_users
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, hidden_field, output_fields, with_padding
from headrace.streaming.samples.crop import FrameWindow, SampleCrop
from headrace.streaming.samples.decoded_fields import decoded
from headrace.streaming.samples.stored_sample import StoredSample
from headrace.streaming.settings import Decode, SampleSettings


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


def stored_latents_of(sample: StoredSample) -> tuple[NDArray[Any], str, int]:
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


def latents_beside_audio(
    sample: StoredSample, outputs: Sequence[Output], crop: SampleCrop, config: SampleSettings
) -> Sample:
    """The fields of latents that are in the same sample as audio, as in exports and in other people's tars.

    A `.pth` without latents is returned as bytes: a reader of the audio may not need it.

    Args:
        sample: the sample.
        outputs: the named outputs that its JSON lists.
        crop: the crop of the sample.
        config: the user's settings.

    Raises:
        ConfigError: the sample is cut, or something else than codes is to be padded.
        FormatError: the `.pth` does not hold the outputs, or according to the index it has latents and does not.
    """
    if outputs:
        return _outputs_beside_audio(sample, outputs, crop, config)
    try:
        latents = stored_latents_of(sample)
    except FormatError:
        if sample.tensor is not None or (content := _latent_file(sample)) is None:
            raise  # according to the index it has latents
        return {LATENT_FIELD: decoded(LATENT_FIELD, content) if config.decode is Decode.BASIC else content}
    _check_whole(sample, crop)
    return cropped_latents(latents, (0, len(latents[0])), hidden_field(), crop, config)


def _outputs_beside_audio(
    sample: StoredSample, outputs: Sequence[Output], crop: SampleCrop, config: SampleSettings
) -> Sample:
    _check_whole(sample, crop)
    (fields,) = output_fields([("", outputs)])
    found: Sample = {OUTPUT_FIELDS: {field.values: field for field in with_padding(fields, config.pad)}}
    for field, tensor in zip(fields, stored_outputs(_latent_file(sample) or b"", outputs), strict=True):
        values, dtype = as_numpy(tensor)
        window = crop.choice(len(values)) if field.is_choice else (0, len(values))
        found |= cropped_latents((values, dtype, len(values)), window, field, crop, config)
    return found


def _check_whole(sample: StoredSample, crop: SampleCrop) -> None:
    if crop.cuts:
        raise ConfigError(
            f"{sample.shard_name}: its samples hold audio and latents in one, and nothing says how many latent frames "
            "a second has, so no crop or window can cut both alike: leave it out, and cut in a transform"
        )


def cropped_latents(
    found: tuple[NDArray[Any], str, int],
    window: FrameWindow,
    field: OutputField,
    crop: SampleCrop,
    config: SampleSettings,
) -> Sample:
    """The fields of latents in a sample, cropped to `window`; see `stored_latents_of`."""
    hidden, dtype, length = found
    first, count = window
    if not field.has_time:
        vector = hidden[first] if len(hidden) else _no_vector(hidden)
        drawn: Sample = {field.offset: first} if field.is_choice else {}
        return {field.values: as_users(vector, dtype, config.output), **drawn}
    fields = {field.values: as_users(hidden[first : first + count], dtype, config.output)}
    fields[field.length] = max(0, min(length - first, count))
    if crop.cuts:
        fields[field.offset] = first
    return fields


def _no_vector(rows: NDArray[Any]) -> NDArray[Any]:
    """Zeros in place of a vector that was rejected when it was made."""
    return np.zeros(rows.shape[1], rows.dtype)
