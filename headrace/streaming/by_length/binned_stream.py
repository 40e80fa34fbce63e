"""The order of one stream under a frame budget: for each bin of lengths, a sequence of samples.

As in `passes`, a pass permutes the shards and mixes samples in blocks. Here a block is a group of whole shards, so the
census says how many samples of each bin it has, and the sequences of all bins run through the shards together. Samples
are read from the indexes of the shards that hold them, and only when they are wanted.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.format.lazy import cached_property
from headrace.format.manifests.length_census import LengthCensus, cell_of
from headrace.format.sample_starts import sample_starts
from headrace.streaming.by_length.length_bins import LengthBins
from headrace.streaming.by_length.lengths import StreamLengths
from headrace.streaming.order.bijection import mix, permute
from headrace.streaming.order.passes import StreamOrder
from headrace.streaming.recent import Recent

_PICK, _PICK_ROUNDING, _BLOCK_FRACTION, _BIN_BLOCK = range(501, 505)
_CHUNK_SHARDS = 16_384
_SORTED_SAMPLES = 1 << 21  # rows of shards kept sorted by cell: 8 MB

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Pass:
    """One pass over the shards of a stream.

    Attributes:
        key: key of its shuffles.
        shards: (num_shards,); the shards in the order of the pass; None for storage order.
        first: int64 (num_blocks + 1,); the place in `shards` at which each block begins, and the end.
        before: int64 (num_blocks + 1, num_bins); samples of each bin before each block.
        num_nodes: canonical nodes that take turns in a block.
    """

    key: int
    shards: NDArray[np.int32] | None
    first: Ints
    before: Ints
    num_nodes: int

    @cached_property
    def line(self) -> Ints:
        """int64 (num_blocks + 1,); samples of all bins before each block."""
        return np.asarray(self.before.sum(axis=1))

    def shards_of(self, block: int) -> Ints:
        """The shards of a block."""
        places = np.arange(self.first[block], self.first[block + 1])
        return places if self.shards is None else np.asarray(self.shards[places], np.int64)


class BinnedStream:
    """The samples of one stream in an epoch, as one sequence for each bin."""

    def __init__(
        self, order: StreamOrder, census: LengthCensus, bins: LengthBins, max_nodes: int, lengths: StreamLengths
    ) -> None:
        """Read nothing.

        Args:
            order: the stream's passes; its shards have the sizes that the census counted.
            census: lengths of all its samples.
            bins: the bins of the mixture.
            max_nodes: canonical nodes that take turns in a block; no more than the block has shards.
            lengths: asked for all samples of the shards that a batch needs.
        """
        self._order = order
        self._max_nodes = max_nodes
        self._census = census
        self._bins = bins
        self._lengths = lengths
        self._sorted: OrderedDict[int, NDArray[np.int32]] = OrderedDict()
        self._num_sorted = 0
        self._passes: Recent[int, _Pass] = Recent(3)
        edges = np.clip(bins.starts - census.first_cell, 0, len(census.longest))
        self._columns = [slice(int(edges[b]), int(edges[b + 1])) for b in range(len(bins))]

    @property
    def num_samples(self) -> int:
        """Samples of the stream in the epoch."""
        return self._order.num_planned

    @cached_property
    def totals(self) -> Ints:
        """int64 (num_bins,); samples of each bin in the epoch."""
        partial = self._pass(self._order.num_whole).before[-1] if self._order.num_picked else 0
        return np.asarray(self._order.num_whole * self._in_pass + partial)

    def taken(self, position: int) -> Ints:
        """int64 (num_bins,); samples of each bin up to a point of the epoch, in proportion inside a block.

        Args:
            position: samples of all bins up to that point, from 0 to `num_samples`.
        """
        number = min(position // max(1, self._order.size), self._order.num_whole)
        within = position - number * self._order.size
        before = np.asarray(number * self._in_pass)
        if not within:
            return before
        opened = self._pass(number)
        block = int(np.searchsorted(opened.line, within, side="right")) - 1
        if block + 1 == len(opened.line):
            return np.asarray(before + opened.before[-1])
        size = int(opened.line[block + 1] - opened.line[block])
        rounding = mix(opened.key, _BLOCK_FRACTION, block, np.arange(len(self._bins))) % np.uint64(size)
        share = (opened.before[block + 1] - opened.before[block]) * (within - opened.line[block])
        return np.asarray(before + opened.before[block] + (share + rounding.astype(np.int64)) // size)

    def sample_ids(self, bin_number: int, position: Ints) -> Ints:
        """Samples at positions of a bin's sequence (1-d), as numbers in storage order."""
        num_whole, size = self._order.num_whole, int(self._in_pass[bin_number])
        number = np.minimum(position // max(size, 1), num_whole)
        found = np.empty(len(position), np.int64)
        for wanted in sorted(set(number.tolist())):
            rows = number == wanted
            found[rows] = self._in_one_pass(wanted, bin_number, position[rows] - wanted * size)
        return found

    @cached_property
    def _in_pass(self) -> Ints:
        """int64 (num_bins,); samples of each bin in a whole pass."""
        return np.array([self._census.totals[columns].sum() for columns in self._columns], np.int64)

    def _pass(self, number: int) -> _Pass:
        return self._passes.get(number, self._build_pass)

    def _build_pass(self, number: int) -> _Pass:
        key = self._order.pass_key(number)
        size = self._order.size_of_pass(number)
        num_shards = len(self._census.counts)
        block_size = self._order.block_size(size)
        num_blocks = max(1, min((2 * size + block_size) // (2 * block_size), num_shards))
        first = np.arange(num_blocks + 1) * num_shards // num_blocks
        shards = self._order.shards_of_pass(key)
        blocks_at_once = max(1, _CHUNK_SHARDS * num_blocks // max(1, num_shards))
        parts = [
            self._count_blocks(number, shards, first[start : start + blocks_at_once + 1])
            for start in range(0, num_blocks, blocks_at_once)
        ]
        before = np.zeros((num_blocks + 1, len(self._bins)), np.int64)
        np.cumsum(np.concatenate(parts), axis=0, out=before[1:])
        return _Pass(key, shards, first, before, min(self._max_nodes, max(1, num_shards // num_blocks)))

    def _count_blocks(self, number: int, shards: NDArray[np.int32] | None, first: Ints) -> Ints:
        """(len(first) - 1, num_bins); samples of each bin in consecutive blocks."""
        places = slice(int(first[0]), int(first[-1]))
        chosen = np.arange(places.start, places.stop) if shards is None else shards[places].astype(np.int64)
        counts = self._counts(number, chosen)
        if not len(counts):
            return np.zeros((len(first) - 1, len(self._bins)), np.int64)
        blocks = np.add.reduceat(counts, first[:-1] - first[0], axis=0, dtype=np.int64)
        return np.stack([blocks[:, columns].sum(axis=1) for columns in self._columns], axis=1)

    def _counts(self, number: int, shards: Ints) -> NDArray[np.integer]:
        """(len(shards), num_cells); samples of each cell that a pass takes from each shard.

        A partial pass takes of each shard as many samples as without a budget, from all cells in proportion.
        """
        counts = self._census.counts[shards]
        if number < self._order.num_whole:
            return counts
        picked, sizes = self._order.picked_of_shards[shards], self._order.shard_sizes[shards].astype(np.int64)
        rounding = mix(self._order.pick_key, _PICK_ROUNDING, shards) % np.maximum(sizes, 1).astype(np.uint64)
        ends = np.concatenate([np.zeros((len(shards), 1), np.int64), counts.cumsum(axis=1, dtype=np.int64)], axis=1)
        shares = ends * picked[:, None] + rounding.astype(np.int64)[:, None]
        return np.asarray(np.diff(shares // np.maximum(sizes, 1)[:, None], axis=1))

    def _in_one_pass(self, number: int, bin_number: int, position: Ints) -> Ints:
        opened = self._pass(number)
        before = opened.before[:, bin_number]
        block = np.searchsorted(before, position, side="right") - 1
        lead = number * int(self._in_pass[bin_number])
        place = self._shuffled(opened, bin_number, block, position, lead)
        found = np.empty(len(position), np.int64)
        for wanted in sorted(set(block.tolist())):
            rows = block == wanted
            found[rows] = self._in_block(number, opened.shards_of(wanted), bin_number, place[rows])
        return found

    def _shuffled(self, opened: _Pass, bin_number: int, block: Ints, position: Ints, earlier: int) -> Ints:
        """Place of each position among the samples of its block and bin, in the order of the shards.

        As in `passes.BlockPermutation`, canonical nodes take turns. A position, with those of `earlier` passes, belongs
        to the node of its remainder; so a node reads the same shards in all bins, and a rank the shards of its nodes.
        """
        before = opened.before[:, bin_number]
        offset, size = position - before[block], before[block + 1] - before[block]
        if not self._order.is_shuffled:
            return offset
        num_nodes = opened.num_nodes
        step, turn = np.divmod(offset, num_nodes)
        part, longer = np.divmod(size, num_nodes)  # the first `longer` turns have one place more
        lead = (earlier + before[block]) % num_nodes
        node = (lead + turn) % num_nodes
        longer_before = np.clip(node - lead, 0, np.minimum(longer, num_nodes - lead))
        longer_before += np.clip(np.minimum(node, lead + longer - num_nodes), 0, None)
        keys = mix(opened.key, _BIN_BLOCK, block, bin_number, node)
        return np.asarray(node * part + longer_before + permute(step, part + (turn < longer), keys))

    def _in_block(self, number: int, shards: Ints, bin_number: int, place: Ints) -> Ints:
        """Samples at places among those of a bin in a block of a pass."""
        columns = self._columns[bin_number]
        counts = self._counts(number, shards)[:, columns].astype(np.int64)
        starts = sample_starts(counts.ravel())
        field = np.searchsorted(starts, place, side="right") - 1  # "right" steps over empty cells
        offset = place - starts[field]
        shard_in_block, column = np.divmod(field, counts.shape[1])
        shard, cell = shards[shard_in_block], column + columns.start
        if number == self._order.num_whole:
            keys = mix(self._order.pick_key, _PICK, shard, cell)
            offset = permute(offset, self._census.counts[shard, cell].astype(np.int64), keys)
        offset = offset + self._before_cell(shard, cell)
        return np.asarray(self._order.storage_starts[shard] + self._rows_by_cell(shard, offset))

    def _before_cell(self, shard: Ints, cell: Ints) -> Ints:
        """Samples of each shard in shorter cells than `cell`."""
        counts = self._census.counts[shard]
        return np.asarray(np.where(np.arange(counts.shape[1]) < cell[:, None], counts, 0).sum(axis=1, dtype=np.int64))

    def _rows_by_cell(self, shard: Ints, offset: Ints) -> Ints:
        """Row in its shard of the sample at each offset, where the rows of the shard are sorted by cell."""
        wanted = sorted(set(shard.tolist()))
        opened = {number: self._sorted[number] for number in wanted if number in self._sorted}
        opened |= self._sort_shards([number for number in wanted if number not in opened])
        found = np.empty(len(shard), np.int64)
        for number in wanted:
            rows = shard == number
            found[rows] = opened[number][offset[rows]]
            if number in self._sorted:
                self._sorted.move_to_end(number)
        return found

    def _sort_shards(self, shards: list[int]) -> dict[int, NDArray[np.int32]]:
        if not shards:
            return {}
        starts, sizes = self._order.storage_starts[shards], self._order.shard_sizes[shards].astype(np.int64)
        ends = np.cumsum(sizes)
        cells = cell_of(self._lengths.of(np.repeat(starts - (ends - sizes), sizes) + np.arange(ends[-1])))
        cells -= self._census.first_cell
        sorted_rows = {}
        for shard, start, end in zip(shards, (ends - sizes).tolist(), ends.tolist(), strict=True):
            own, counts = cells[start:end], self._census.counts[shard]
            if own.min() < 0 or not np.array_equal(np.bincount(own, minlength=len(counts)), counts):
                raise self._lengths.changed(shard)
            sorted_rows[shard] = self._keep(shard, np.argsort(own, kind="stable").astype(np.int32))
        return sorted_rows

    def _keep(self, shard: int, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        self._sorted[shard] = rows
        self._num_sorted += len(rows)
        while self._num_sorted > _SORTED_SAMPLES and len(self._sorted) > 1:
            self._num_sorted -= len(self._sorted.popitem(last=False)[1])
        return rows
