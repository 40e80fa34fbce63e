"""Makes the samples of rows of one shard, with one of the outputs of their latents; nothing is decoded here."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.errors import IntegrityError, NotFoundError
from headrace.format.indexes.audio_fields import AUDIO
from headrace.streaming.output_fields import OutputField
from headrace.streaming.samples.chosen_fields import ChosenFields
from headrace.streaming.samples.stored_sample import FieldColumns, StoredSample, field_columns
from headrace.streaming.shards.access import ShardAccess


def opened_samples(  # noqa: PLR0913 - the last two are mostly left out
    access: ShardAccess,
    shard: int,
    rows: Sequence[int],
    *,
    patient: bool,
    chosen: ChosenFields | None = None,
    output: int = 0,
) -> list[StoredSample]:
    """Some rows of one shard, which is opened, with one of their outputs."""
    samples = indexed_samples(access, shard, rows, output)
    if chosen is not None:
        for sample in samples:
            chosen.narrow(sample)
    file = None
    fault: OSError | None = None
    try:
        file = access.open(shard, lambda: [sample.fields_at_once() for sample in samples], patient=patient)
    except (IntegrityError, NotFoundError) as error:
        fault = type(error)(str(error))  # the error itself would keep its frames alive, and with them open files
    wants_audio = access.shards.has_audio and (chosen is None or AUDIO in chosen.names)
    for sample in samples:
        sample.file, sample.fault = file, fault
        sample.is_of_audio = wants_audio or bool(sample.columns.audio)
    return samples


def indexed_samples(access: ShardAccess, shard: int, rows: Sequence[int], output: int = 0) -> list[StoredSample]:
    """Some rows of one shard, whose file is not opened yet, with one of their outputs."""
    index = access.index(shard)
    columns = field_columns(index.fields, index.audio_fields)
    samples = [_unopened_sample(access, shard, columns, row) for row in rows]
    if output or (index.outputs and index.outputs[0].is_named):
        samples = [_with_output(sample, output, row) for sample, row in zip(samples, rows, strict=True)]
    if index.audio_facts is not None:
        for sample, row in zip(samples, rows, strict=True):
            sample.audio_facts = index.audio_facts[row].tolist()
    if index.rejections:
        for sample in samples:
            if sample.tensor is None and sample.span(sample.columns.latents) is None:
                sample.rejection = index.rejections.get(sample.key, "")
    return samples


def _unopened_sample(access: ShardAccess, shard: int, columns: FieldColumns, row: int) -> StoredSample:
    """One row of a shard with the first of its outputs."""
    index = access.index(shard)
    num_frames, rate, channels, tensors, checksums, spans, crc32 = index.row(row)
    facts = (num_frames, rate, channels, tensors[0], spans, crc32, index.tensor_dtype, index.latent_rate_hz)
    return StoredSample(access, shard, None, index.key(row), columns, *facts, tensor_crc32=checksums[0])


def _with_output(sample: StoredSample, output: int, row: int) -> StoredSample:
    """A row of a shard with another output of its latents."""
    index = sample.access.index(sample.shard)
    if output >= len(index.outputs):  # all latents of the shard were rejected
        return replace(sample, output=output)
    found, numbers = index.outputs[output], index.row(row)
    place = numbers.tensors[output]
    return replace(
        sample,
        num_frames=0 if place is None else place.num_frames,
        tensor=place,
        tensor_crc32=numbers.tensor_crc32[output],
        tensor_dtype=found.dtype,
        latent_rate_hz=found.frame_rate_hz,
        has_time_axis=found.is_timed,
        output=output,
        is_choice=found.is_choice,
    )


def with_outputs(samples: Sequence[StoredSample | None], field: OutputField) -> list[StoredSample | None]:
    """Samples with another output of their latents."""
    rows = (None if one is None else one.access.index(one.shard).find(one.key) for one in samples)
    return [
        None if one is None or row is None else _with_output(one, field.number, row)
        for one, row in zip(samples, rows, strict=True)
    ]


def joined_samples(
    access: ShardAccess, shard: int, keys: Sequence[str], *, patient: bool, output: int = 0
) -> list[StoredSample | None]:
    """The samples of one shard with these keys; None for a key that it lacks."""
    index = access.index(shard)
    found = [index.find(key) for key in keys]
    rows = [row for row in found if row is not None]
    samples = iter(opened_samples(access, shard, rows, patient=patient, output=output))
    return [None if row is None else next(samples) for row in found]


def lacks_time_axis(access: ShardAccess, shard: int) -> bool:
    """Whether the first output of a folder of latents has no time, since no sample has more than one frame."""
    # In a small shard, some samples without latents can make the frames fewer than the samples.
    return not access.has_time_axis and not (access.index(shard).num_frames > 1).any()
