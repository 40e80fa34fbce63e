"""Batches that are merely copied: raw latents of local files, which go into their rows in one read (`bulk`).

Owns when a batch is one (`gathered`) and making it, all of it by columns. It reports no faults: where anything is not
as the indexes say, nothing comes of it, and whoever makes the batch row by row says what is wrong. Both give the same
bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.index import Column
from headrace.streaming.arena import Allocator
from headrace.streaming.batch import Batch, Latents, storage_dtype
from headrace.streaming.bulk import READ, read_together
from headrace.streaming.columns import Columns, Ints, Stored
from headrace.streaming.decode import parsed_together
from headrace.streaming.order import PADDING, Rows
from headrace.streaming.recipe import Recipe
from headrace.streaming.rows import StreamReader


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The samples of such a batch.

    Attributes:
        columns: the samples.
        places: int64 (n,), the row of the batch that each goes to; the others are padding.
        num_rows: rows of the batch.
    """

    columns: Columns
    places: Ints
    num_rows: int


def gathered(streams: Sequence[StreamReader], rows: Rows, recipe: Recipe) -> Gathered | None:
    """The samples of a batch that is merely copied; None for any other."""
    if recipe.config.transform is not None or recipe.config.sample_rate_hz is not None:
        return None
    samples: list[Stored] = []
    places: list[Ints] = []
    for number, stream in enumerate(streams):
        chosen = np.flatnonzero((rows.stream_ids == number) & (rows.sample_ids != PADDING))
        if len(chosen):
            if (found := stream.stored(rows.sample_ids[chosen])) is None:
                return None
            samples += found
            places.append(chosen)
    columns = Columns.of(samples) if samples else None
    if columns is None or not _fits(columns):
        return None
    return Gathered(columns, np.concatenate(places), len(rows))


class CopiedBatch:
    """Such a batch being made."""

    def __init__(self, found: Gathered, recipe: Recipe, epoch: int, positions: Ints, allocator: Allocator) -> None:
        """Allocate it.

        Args:
            found: its samples.
            recipe: what is kept of each.
            epoch: number of the epoch.
            positions: int64 (num_rows,), the row of the epoch that each is.
            allocator: where its arrays come from.
        """
        columns, places, num_rows = found.columns, found.places, found.num_rows
        rates, num_stored = columns[Column.RATE], columns[Column.TENSOR_FRAMES]
        self._columns, self._places = columns, places
        self._first, self._count = recipe.windows(epoch, num_stored, rates, positions[places])
        shape = (num_rows, int(self._count.max()), columns.width)
        self._hidden = allocator.empty(shape, storage_dtype(columns.dtype))
        lengths, is_padding = np.zeros(num_rows, np.int64), np.ones(num_rows, np.bool_)
        lengths[places] = np.clip(columns[Column.NUM_FRAMES] - self._first, 0, self._count)
        is_padding[places] = False
        self.batch = Batch([""] * num_rows, [{} for _ in range(num_rows)], is_padding)
        self.batch.latents[recipe.suffixes[0]] = Latents(self._hidden, lengths, columns.dtype)

    def read(self) -> bool:
        """Fill it; False, with arbitrary content, when something is not as the indexes say."""
        starts, sizes = self._columns.json_spans()
        ends = np.cumsum(sizes)
        texts = np.empty(int(ends[-1]), np.uint8)
        descriptors = self._columns.descriptors()
        of_json = _reads(descriptors, starts, _address(texts) + ends - sizes, sizes)
        if not read_together(np.concatenate([of_json, self._reads_of_latents(descriptors)])).all():
            return False
        self._zero_the_rest()
        return self._describe(texts.tobytes(), ends)

    def _reads_of_latents(self, descriptors: Ints) -> NDArray[np.void]:
        start, stop = self._columns[Column.START], self._columns[Column.STOP]
        frame_bytes = (stop - start) // np.maximum(1, self._columns[Column.TENSOR_FRAMES])
        addresses = _address(self._hidden) + self._places * self._hidden.strides[0]
        return _reads(descriptors, start + self._first * frame_bytes, addresses, self._count * frame_bytes)

    def _zero_the_rest(self) -> None:
        """Zeros after the end of each row, and in padding."""
        self._hidden[self.batch.is_padding] = 0
        short = np.flatnonzero(self._count < self._hidden.shape[1])
        for place, end in zip(self._places[short].tolist(), self._count[short].tolist(), strict=True):
            self._hidden[place, end:] = 0

    def _describe(self, texts: bytes, ends: Ints) -> bool:
        """Keys and metadata; False when a text is no JSON."""
        keys, metadata = self.batch.keys, self.batch.metadata
        try:
            described = parsed_together(texts, ends.tolist())
        except ValueError:
            return False
        for place, key, found in zip(self._places.tolist(), self._columns.keys(), described, strict=True):
            keys[place], metadata[place] = key, found
        return True


def _fits(columns: Columns) -> bool:
    """Whether the indexes contradict themselves nowhere: what is read into memory by its address must fit there."""
    start, stop, num_frames = (columns[c] for c in (Column.START, Column.STOP, Column.TENSOR_FRAMES))
    frame_bytes = columns.width * storage_dtype(columns.dtype).itemsize
    json_start, json_bytes = columns.json_spans()
    ends = np.maximum(stop, json_start + json_bytes)
    return bool(
        ((stop - start == num_frames * frame_bytes) & (num_frames >= 0) & (json_bytes >= 0)).all()
        and ends.max() <= max(shard.index.num_bytes for shard, _ in columns.samples)
    )


def _reads(descriptors: Ints, starts: Ints, addresses: Ints, sizes: Ints) -> NDArray[np.void]:
    reads = np.empty(len(starts), READ)
    reads["descriptor"], reads["offset"], reads["address"], reads["num_bytes"] = descriptors, starts, addresses, sizes
    return reads


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])
