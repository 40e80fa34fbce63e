"""Reads the files of a sample at once, and gives those that are neither audio nor latents."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.streaming.batches.json_texts import metadata_of
from headrace.streaming.cache.coalesce import Span
from headrace.streaming.samples.stored_sample import StoredSample

Around = tuple[int, memoryview]
"""The bytes of a sample's fields other than raw latents, and their first byte in the shard."""


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


def _span_around(sample: StoredSample) -> Span:
    columns = sample.columns.beside_latents if sample.tensor is not None else range(len(sample.spans) // 2)
    if len(columns) == 1:
        return sample.span(columns[0]) or (0, 0)
    present = [span for column in columns if (span := sample.span(column)) is not None]
    if not present:
        return 0, 0
    return min(start for start, _ in present), max(stop for _, stop in present)


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
