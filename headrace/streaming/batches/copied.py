"""Batches that are merely copied: raw latents of local files, which go into their rows in one read (`bulk`).

Owns when batches are that (`gathered`) and making them, all of it by columns, and the columns of several batches at a
time: between two copies of many megabytes nothing of what Python needs is left in the processor's caches, and a step of
numpy that takes half a microsecond takes ten. It reports no faults: where anything is not as the indexes say, nothing
comes of it, and whoever makes the batch row by row says what is wrong. Both give the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.index import Column
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch, Latents, storage_dtype
from headrace.streaming.batches.bulk import READ, read_together
from headrace.streaming.batches.columns import Columns, Ints, LocalShard, Stored
from headrace.streaming.batches.decode import parsed_together
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.rows import StreamReader
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING

_HIDDEN, _JSON = 0, 1
_SHARDS_TOGETHER = 128  # in which batches lie that are opened together
_JSON_BYTES_TOGETHER = 4 << 20  # of such batches


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The samples of one such batch.

    Attributes:
        shards: where they lie; they keep their files open.
        keys: (n,), `__key__` of each.
        places: (n,), the row of the batch that each goes to; the others are padding.
        lengths: int64 (n,), latent frames that are read of each: `encoder_length`.
        ends: (n,), the same.
        offsets: int64 (n,), the first of them: `encoder_offset`; None where nothing is cropped.
        reads: `READ` (n, 2), what is read of each; the latents' addresses count from the batch's first byte.
        texts: uint8, where the samples' JSON goes, end to end.
        text_ends: (n,), where each ends.
        num_rows: rows of the batch.
        num_frames: T of the batch: its longest row may end before.
        width: D of the latents.
        dtype: name of the latents' dtype.
    """

    shards: Sequence[LocalShard]
    keys: list[str]
    places: list[int]
    lengths: Ints
    ends: list[int]
    offsets: Ints | None
    reads: NDArray[np.void]
    texts: NDArray[np.uint8]
    text_ends: list[int]
    num_rows: int
    num_frames: int
    width: int
    dtype: str

    @property
    def is_full(self) -> bool:
        """Whether there is no padding."""
        return len(self.places) == self.num_rows


def gathered(streams: Sequence[StreamReader], plans: Sequence[BatchPlan], recipe: Recipe) -> "list[CopiedBatch] | None":
    """Batches of one epoch that are all merely copied, ready to be read; None if any is not.

    They are the first ones of `plans`: one, or as many as lie in few shards, whose files stay open, with little JSON,
    which stays in memory until all of them are read.
    """
    if recipe.config.transform is not None or recipe.config.sample_rate_hz is not None:
        return None
    sample_ids = np.concatenate([plan.rows.sample_ids for plan in plans])
    stream_ids = np.concatenate([plan.rows.stream_ids for plan in plans])
    held = np.flatnonzero(sample_ids != PADDING)
    places, rows = _located(streams, stream_ids[held], sample_ids[held])
    shards, which = np.unique(places, return_inverse=True)
    if len(plans) > 1 and len(shards) > _SHARDS_TOGETHER:
        return gathered(streams, plans[: len(plans) // 2], recipe)
    files = _opened(streams, shards)
    columns = Columns.of(Stored(files, which, rows)) if files else None
    if columns is None or not _fits(columns):
        return None
    if len(plans) > 1 and columns.json_spans()[1].sum() > _JSON_BYTES_TOGETHER:
        return gathered(streams, plans[: len(plans) // 2], recipe)
    shares = _shared_out(columns, held, plans, recipe)
    return None if shares is None else [CopiedBatch(share, recipe.suffixes[0]) for share in shares]


def _located(streams: Sequence[StreamReader], stream_ids: Ints, sample_ids: Ints) -> tuple[Ints, Ints]:
    """Shard, counted over all streams, and row of each sample."""
    shards, rows = np.empty_like(sample_ids), np.empty_like(sample_ids)
    first = 0
    for number, stream in enumerate(streams):
        own = stream_ids == number
        found, rows[own] = stream.locator.find(sample_ids[own])
        shards[own] = found + first
        first += stream.locator.num_shards
    return shards, rows


def _opened(streams: Sequence[StreamReader], shards: Ints) -> list[LocalShard] | None:
    """These shards, sorted and counted over all streams; None unless all are merely copied and there."""
    files: list[LocalShard] = []
    first = 0
    for stream in streams:
        start, stop = np.searchsorted(shards, [first, first + stream.locator.num_shards])
        if start < stop:
            if (found := stream.local_files((shards[start:stop] - first).tolist())) is None:
                return None
            files += found
        first += stream.locator.num_shards
    return files


def _shared_out(columns: Columns, held: Ints, plans: Sequence[BatchPlan], recipe: Recipe) -> list[Gathered] | None:
    """The samples, batch by batch.

    Args:
        columns: the samples.
        held: (n,), the row of each, all batches end to end.
        plans: the batches.
        recipe: what is kept of each sample.

    Returns:
        None if one has none: a batch of padding alone has the shapes of some sample. Also if a crop is in seconds and
        some latents' frame rate is unknown.
    """
    first_rows = np.cumsum([0, *map(len, plans)])
    edges = np.searchsorted(held, first_rows)
    starts, sizes = edges[:-1], np.diff(edges)
    rates_hz = np.zeros(len(columns)) if recipe.config.crop_seconds is None else columns.rates_hz()
    if not sizes.all() or (recipe.config.crop_seconds is not None and not rates_hz.all()):
        return None
    positions = np.concatenate([plan.positions for plan in plans])[held]
    first, counts = recipe.crop.windows(plans[0].epoch, columns[Column.TENSOR_FRAMES], rates_hz, positions)
    lengths = np.minimum(np.maximum(columns[Column.NUM_FRAMES] - first, 0), counts)
    places, longest = held - np.repeat(first_rows[:-1], sizes), np.maximum.reduceat(counts, starts)
    reads, texts, text_ends = _reads(columns, first, lengths)
    reads["address"][:, _HIDDEN] = places * np.repeat(longest, sizes) * _frame_bytes(columns)
    text_edges = np.concatenate([[0], text_ends])[edges]
    text_ends -= np.repeat(text_edges[:-1], sizes)
    listed = places.tolist(), lengths.tolist(), text_ends.tolist()
    found: list[Gathered] = []
    for plan, num_frames, span, text_span in zip(
        plans, longest.tolist(), pairwise(edges.tolist()), pairwise(text_edges.tolist()), strict=True
    ):
        part = slice(*span)
        own_places, own_ends, own_text_ends = (column[part] for column in listed)
        found.append(
            Gathered(
                columns.samples.shards, columns.keys[part], own_places, lengths[part], own_ends,
                first[part] if recipe.config.crops else None, reads[part], texts[slice(*text_span)], own_text_ends,
                len(plan), num_frames, columns.width, columns.dtype,
            )
        )  # fmt: skip
    return found


def _reads(columns: Columns, first: Ints, counts: Ints) -> tuple[NDArray[np.void], NDArray[np.uint8], Ints]:
    """What is read of each sample: its latents from frame `first` on, `counts` of them, and its JSON.

    Returns:
        `READ` (n, 2), of the latents not yet whereto; uint8, where the JSON goes, end to end; int64 (n,), its ends.
    """
    frame_bytes = _frame_bytes(columns)
    json_start, json_bytes = columns.json_spans()
    ends = np.cumsum(json_bytes)
    texts = np.empty(int(ends[-1]), np.uint8)
    reads = np.zeros((len(columns), 2), READ)
    hidden, json = reads[:, _HIDDEN], reads[:, _JSON]
    reads["descriptor"] = columns.descriptors()[:, None]
    hidden["offset"], hidden["num_bytes"] = columns[Column.START] + first * frame_bytes, counts * frame_bytes
    json["offset"], json["num_bytes"], json["address"] = json_start, json_bytes, _address(texts) + ends - json_bytes
    return reads, texts, ends


class CopiedBatch:
    """Such a batch being made."""

    def __init__(self, found: Gathered, suffix: str) -> None:
        """Nothing is allocated before it is read.

        Args:
            found: its samples.
            suffix: of the names of its latents.
        """
        self._found = found
        self._suffix = suffix
        self.batch: Batch

    def __len__(self) -> int:
        """Number of rows."""
        return self._found.num_rows

    def read(self, allocator: Allocator) -> bool:
        """Make `batch`, its arrays from `allocator`; False, and none, when something is not as the indexes say.

        To be called once.
        """
        found = self._found
        shape = (found.num_rows, found.num_frames, found.width)
        hidden = allocator.empty(shape, storage_dtype(found.dtype))
        found.reads["address"][:, _HIDDEN] += np.uint64(_address(hidden))
        if not read_together(found.reads.reshape(-1)):
            return False
        try:
            metadata = parsed_together(found.texts.tobytes(), found.text_ends)
        except (ValueError, RecursionError):  # no JSON
            return False
        self.batch = self._described(metadata)
        self._zero_the_rest(hidden)
        offsets = None if found.offsets is None else self._padded(found.offsets)
        self.batch.latents[self._suffix] = Latents(hidden, self._padded(found.lengths), found.dtype, offsets)
        return True

    def _padded(self, numbers: Ints) -> Ints:
        """A number for each sample → for each row; 0 in padding."""
        if self._found.is_full:
            return numbers
        padded = np.zeros(self._found.num_rows, np.int64)
        padded[self._found.places] = numbers
        return padded

    def _described(self, metadata: list[dict[str, Any]]) -> Batch:
        """The batch without its latents."""
        found = self._found
        is_padding = np.zeros(found.num_rows, np.bool_)
        if found.is_full:
            return Batch(found.keys, metadata, is_padding)
        batch = Batch([""] * found.num_rows, [{} for _ in range(found.num_rows)], is_padding)
        is_padding[:] = True
        is_padding[found.places] = False
        for place, key, content in zip(found.places, found.keys, metadata, strict=True):
            batch.keys[place], batch.metadata[place] = key, content
        return batch

    def _zero_the_rest(self, hidden: NDArray[Any]) -> None:
        """Zeros after the end of each row, and in padding."""
        found = self._found
        for place, end in zip(found.places, found.ends, strict=True):
            if end < found.num_frames:
                hidden[place, end:] = 0
        if not found.is_full:
            hidden[self.batch.is_padding] = 0


def _fits(columns: Columns) -> bool:
    """Whether the indexes contradict themselves nowhere: what is read into memory by its address must fit there."""
    start, stop, num_frames = (columns[c] for c in (Column.START, Column.STOP, Column.TENSOR_FRAMES))
    lengths = columns[Column.NUM_FRAMES]
    json_start, json_bytes = columns.json_spans()
    fits = (stop - start == num_frames * _frame_bytes(columns)) & (lengths >= 0) & (lengths <= num_frames)
    ends = np.maximum(stop, json_start + json_bytes)
    fits &= (json_bytes >= 0) & (ends <= columns.shard_bytes())
    return bool(fits.all()) and not columns.has_empty_json()


def _frame_bytes(columns: Columns) -> int:
    return columns.width * storage_dtype(columns.dtype).itemsize


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])
