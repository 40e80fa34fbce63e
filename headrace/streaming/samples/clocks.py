"""Finds in the indexes what windows and crops of samples are measured in, whichever fields are read.

Nothing is opened or decoded here: of latents that are not read, the indexes alone are.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.streaming.output_fields import OutputField
from headrace.streaming.samples.shard_rows import indexed_samples, lacks_time_axis
from headrace.streaming.samples.stored_sample import Clock, StoredSample
from headrace.streaming.shards.access import ShardAccess

Outputs = Sequence[OutputField]


class Clocks:
    """The clocks of a stream's samples; safe for threads."""

    def __init__(
        self, primary: ShardAccess, outputs: Outputs, joined: Sequence[tuple[ShardAccess, Outputs, NDArray[np.int64]]]
    ) -> None:
        """Read nothing yet.

        Args:
            primary: the stream's own shards.
            outputs: all outputs of its own latents.
            joined: of each joined folder the shards, all outputs, and the partner of each of the stream's own shards.
        """
        self._primary = primary
        self._outputs = outputs[1:]
        self._joined = joined

    def of(self, shard: int, rows: Sequence[int]) -> list[Clock]:
        """The clocks of some rows of a shard."""
        index = self._primary.index(shard)
        keys = index.keys_of(rows)
        columns = [_slowest(self._primary, shard, keys, self._outputs)]
        for access, outputs, partners in self._joined:
            if partners[shard] != ABSENT:
                columns.append(_slowest(access, int(partners[shard]), keys, outputs))
        return [_clock(index, row, others) for row, others in zip(rows, zip(*columns, strict=True), strict=True)]


def _slowest(access: ShardAccess, shard: int, keys: Sequence[str], outputs: Outputs) -> list[StoredSample | None]:
    """The samples with these keys, of the slowest output; None where none has time, or the sample was rejected."""
    index = access.index(shard)
    numbers = (output.number for output in outputs)
    timed = [number for number in numbers if number < len(index.outputs) and index.outputs[number].is_timed]
    if 0 in timed and lacks_time_axis(access, shard):
        timed.remove(0)
    if not timed:
        return [None] * len(keys)
    number = min(timed, key=lambda number: index.outputs[number].frame_rate_hz)
    rows = [index.find(key) for key in keys]
    known = iter(indexed_samples(access, shard, [row for row in rows if row is not None], number))
    found = [None if row is None else next(known) for row in rows]
    return [None if sample is None or sample.rejection else sample for sample in found]


def _clock(index: ShardIndex, row: int, others: tuple[StoredSample | None, ...]) -> Clock:
    found = index.row(row)
    rate_hz, first = found.sample_rate_hz or index.latent_rate_hz, found.tensors[0]
    if found.sample_rate_hz or first is None:
        is_rejected = not found.sample_rate_hz and index.key(row) in index.rejections
        return Clock(0 if is_rejected else found.num_frames, rate_hz, not is_rejected, others)
    return Clock(first.num_frames, rate_hz, not index.outputs or index.outputs[0].is_timed, others)
