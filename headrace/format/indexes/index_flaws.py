"""Checks that the numbers of a shard's index fit together and point inside the tar.

Every index is checked once, when it is made or parsed, so that readers may rely on it: every array has one row per
sample, every byte range is inside the tar, and every raw tensor is inside a field of its own sample. Whether the index
agrees with the content of the tar is checked by `headrace verify`.
"""

import numpy as np

from headrace.errors import FormatError
from headrace.format import tables
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.tensors.tensors import storage_dtype

_GREATEST_CRC32 = (1 << 32) - 1


def check_index(index: ShardIndex, name: str) -> None:
    """Raise `FormatError`, with the file's name, where an index contradicts itself: readers trust its numbers."""
    if (flaw := flaw_of(index)) is not None:
        raise FormatError(f"{name}: the index contradicts itself: {flaw}; {tables.WAY_OUT}")


def flaw_of(index: ShardIndex) -> str | None:
    """The first contradiction in an index, as a sentence; None if it has none."""
    checks = (
        _flaw_of_shapes,
        _flaw_of_keys,
        _flaw_of_facts,
        _flaw_of_audio_fields,
        _flaw_of_ranges,
        _flaw_of_checksums,
        _flaw_of_tensors,
        _flaw_of_seeks,
    )
    return next((flaw for check in checks if (flaw := check(index)) is not None), None)


def _flaw_of_shapes(index: ShardIndex) -> str | None:
    count, num_fields, num_outputs = index.num_frames.size, len(index.fields), len(index.outputs)
    for name, shape, dtype in (
        ("num_frames", (count,), np.int64),
        ("key_bytes", (index.key_bytes.size,), np.uint8),
        ("key_offsets", (count + 1,), np.int64),
        ("ranges", (count, num_fields, 2), np.int64),
        ("crc32", (count, num_fields), np.int64),
        ("sample_rate_hz", (count,), np.int32),
        ("num_channels", (count,), np.int16),
        ("tensors", (count, num_outputs, 4), np.int64),
        ("tensor_crc32", (count, num_outputs), np.int64),
    ):
        found = getattr(index, name)
        if found.shape != shape or found.dtype != dtype:
            wanted = np.dtype(dtype).name
            return (
                f"{count} samples of {num_fields} fields need {name} as {wanted} {shape}, found {found.dtype.name} "
                f"{found.shape}"
            )
    return None


def _flaw_of_keys(index: ShardIndex) -> str | None:
    edges, num_bytes = index.key_offsets, index.key_bytes.size
    if edges[0] != 0 or edges[-1] != num_bytes or (edges[1:] < edges[:-1]).any():
        return f"key_offsets must rise from 0 to the {num_bytes} bytes of all keys"
    return None


def _flaw_of_facts(index: ShardIndex) -> str | None:
    for name, least in (("num_frames", ABSENT), ("sample_rate_hz", 0), ("num_channels", 0)):
        found = getattr(index, name)
        if (found < least).any():
            row = int((found < least).argmax())
            return f"sample {index.key(row)!r} has {name} {found[row]}"
    return None


def _flaw_of_audio_fields(index: ShardIndex) -> str | None:
    facts, names = index.audio_facts, index.audio_fields
    if facts is None:
        return f"it names the audio fields {', '.join(names)} and has no facts of them" if names else None
    shape = (len(index), len(names), 2)
    if not names or facts.shape != shape or facts.dtype != np.int64:
        return f"audio fields {', '.join(names)} need facts as int64 {shape}, found {facts.dtype.name} {facts.shape}"
    lengths, channels = facts[..., 0], facts[..., 1]
    is_sound = ((index.num_frames == ABSENT) | (index.num_frames == lengths.min(1))) & (channels >= 0).all(1)
    if is_sound.all():
        return None
    row = int(is_sound.argmin())
    return (
        f"sample {index.key(row)!r} has {index.num_frames[row]} frames, but its audio fields have "
        f"{lengths[row].tolist()} frames and {channels[row].tolist()} channels"
    )


def _flaw_of_ranges(index: ShardIndex) -> str | None:
    starts, stops = index.ranges[..., 0], index.ranges[..., 1]
    fits = ((starts == ABSENT) & (stops == ABSENT)) | ((starts >= 0) & (starts <= stops) & (stops <= index.num_bytes))
    if not fits.all():
        row, column = np.argwhere(~fits)[0].tolist()
        return (
            f"field {index.fields[column]} of sample {index.key(row)!r} is at bytes {starts[row, column]}.."
            f"{stops[row, column]} of a tar of {index.num_bytes} bytes"
        )
    return None


def _flaw_of_checksums(index: ShardIndex) -> str | None:
    crc32, is_present = index.crc32, index.ranges[..., 0] != ABSENT
    fits = (crc32 == ABSENT) | (is_present & (crc32 >= 0) & (crc32 <= _GREATEST_CRC32))
    if not fits.all():
        row, column = np.argwhere(~fits)[0].tolist()
        return f"field {index.fields[column]} of sample {index.key(row)!r} has the CRC-32 {crc32[row, column]}"
    return None


def _flaw_of_tensors(index: ShardIndex) -> str | None:
    """Raw values are read without parsing the bytes around them, so they must be in a field of their own sample."""
    flaws = (_flaw_of_output(index, number) for number in range(len(index.outputs)))
    return next((flaw for flaw in flaws if flaw is not None), None)


def _flaw_of_output(index: ShardIndex, number: int) -> str | None:
    output, tensors, crc32 = index.outputs[number], index.tensors[:, number], index.tensor_crc32[:, number]
    is_absent = (tensors == ABSENT).all(1) & (crc32 == ABSENT)
    item_bytes = storage_dtype(output.dtype).itemsize
    starts, stops, num_frames, width = tensors.T
    num_bytes = (
        num_frames.astype(np.float64) * width * item_bytes
    )  # as floats, because a product of wrong numbers must not overflow
    in_field = (index.ranges[..., 0] <= starts[:, None]) & (stops[:, None] <= index.ranges[..., 1])
    is_whole = (stops - starts == num_bytes) & (num_frames >= 0) & (width >= 0) & (starts >= 0) & (starts <= stops)
    has_checksum = (crc32 >= ABSENT) & (crc32 <= _GREATEST_CRC32)
    has_form = output.has_time | (num_frames == 1) | (output.is_choice & (num_frames > 0))
    is_sound = (is_whole & in_field.any(1) & has_checksum & has_form) | is_absent
    if is_sound.all():
        return None
    row = int(is_sound.argmin())
    return (
        f"the tensor {output.name} of sample {index.key(row)!r}, ({tensors[row, 2]}, {tensors[row, 3]}) of "
        f"{output.dtype}, cannot be bytes {starts[row]}..{stops[row]} of one of its fields (CRC-32 {crc32[row]})"
    )


def _flaw_of_seeks(index: ShardIndex) -> str | None:
    return None if index.seeks is None else index.seeks.flaw(index.audio_sizes)
