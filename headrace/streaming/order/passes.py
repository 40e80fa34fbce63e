"""Computes the order of one stream: the sample at each position, pass after pass.

A whole pass takes each sample once; a partial pass takes selected samples once. The shards of the stream form a line,
end to end, and a pass maps positions to places on the line. The sample at a position is computed when it is needed, so
no array is longer than the list of shards. How several streams are combined is in `interleave`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.order.bijection import mix, permute
from headrace.streaming.order.spec import OrderSpec, SamplingMethod, ShuffleAlgo

BLOCK_SHARDS = 64
"""Default size of a shuffle block: the samples of this many shards."""

# One number for each use of the hash, so that no two uses share a key.
_PASS, _SHARD_ORDER, _BLOCK, _FULL, _PICKS, _PICK_SHIFT, _PICK_WITHIN = range(1, 8)

Ints = NDArray[np.int64]
Permutation = Callable[[Ints], Ints]
"""A bijection of [0, size) that is evaluated at any positions: int64 → int64 of the same shape."""


@dataclass(frozen=True, slots=True)
class BlockPermutation:
    """Shuffles places within blocks of about `block_size`; `num_nodes` canonical nodes take turns in each block.

    Inside a block, position i belongs to node ``i % num_nodes``, which owns a contiguous part of the block and reads
    this part in its own shuffled order::

        line   |------------ block 0 ------------|------------ block 1 ---- ...
        owner  | node 0 | node 1 | node 2 | node 3| node 0 | node 1 | ...
        order  position 0 is in node 0's part, 1 in node 1's, 2 in node 2's, 3 in node 3's, 4 in node 0's again ...

    So any `num_nodes` consecutive positions are spread over the whole block, while positions that are equal modulo the
    world size stay in few parts of it, that is in few shards.
    """

    size: int
    block_size: int
    num_nodes: int
    key: int

    def __call__(self, position: Ints) -> Ints:
        """Places of positions in [0, size)."""
        num_blocks = max(1, (2 * self.size + self.block_size) // (2 * self.block_size))
        block = ((position + 1) * num_blocks - 1) // self.size  # block b is [size*b // num_blocks, size*(b+1) // …)
        start = self.size * block // num_blocks
        length = self.size * (block + 1) // num_blocks - start
        step, node = np.divmod(position - start, self.num_nodes)
        part, longer = np.divmod(length, self.num_nodes)  # the first `longer` nodes own one place more
        place = permute(step, part + (node < longer), mix(self.key, _BLOCK, block, node))
        return np.asarray(start + node * part + np.minimum(node, longer) + place)


@dataclass(frozen=True, slots=True)
class FullPermutation:
    """Shuffles all places: every order is equally likely."""

    size: int
    key: int

    def __call__(self, position: Ints) -> Ints:
        """Places of positions in [0, size)."""
        return permute(position, self.size, mix(self.key, _FULL))


class ShardLine:
    """Shards end to end: maps places on the line to shards and offsets. Takes 8 to 12 bytes for each shard."""

    __slots__ = ("shards", "starts")

    def __init__(self, sizes: NDArray[np.integer], shards: NDArray[np.int32] | None = None) -> None:
        """Lay shards of `sizes` (num_shards,) end to end, in the order `shards` (num_shards,) or in storage order."""
        self.shards = shards
        self.starts = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes if shards is None else sizes[shards], out=self.starts[1:])

    @property
    def size(self) -> int:
        """Places on the line."""
        return int(self.starts[-1])

    def locate(self, place: Ints) -> tuple[Ints, Ints]:
        """Shard of each place, and the offset in that shard."""
        index = np.searchsorted(self.starts, place, side="right") - 1  # "right" steps over empty shards
        shard = index if self.shards is None else self.shards[index].astype(np.int64)
        return shard, place - self.starts[index]


@dataclass(frozen=True, slots=True)
class Picks:
    """Selects `num_picked` places of a line of `size`, in runs of `granularity`, spread evenly over the line.

    Each shard gives its share, plus or minus 1. The `size - num_picked` places that are left out are distributed to the
    gaps between the runs, before the first and after the last, as evenly as whole numbers allow. `shift` in
    [0, size - num_picked] shifts the whole pattern.
    """

    size: int
    num_picked: int
    granularity: int
    shift: int

    @property
    def _num_runs(self) -> int:
        return -(-self.num_picked // self.granularity)

    def place(self, pick: Ints) -> Ints:
        """Place of each selected sample in [0, num_picked); increasing, distinct, and in [0, size)."""
        skipped = (pick // self.granularity * (self.size - self.num_picked) + self.shift) // self._num_runs
        return np.asarray(pick + skipped)

    def num_before(self, place: Ints) -> Ints:
        """Number of selected places below each place in [0, size]: the inverse of `place`, in closed form."""
        runs, left_out = self._num_runs, self.size - self.num_picked
        stride = self.granularity * runs + left_out  # run r starts at (r * stride + shift) // runs
        begun = np.clip(-((self.shift - place * runs) // stride), 0, runs)
        last = np.maximum(begun - 1, 0)
        into_last = np.minimum(place - (last * stride + self.shift) // runs, self.granularity)
        return np.where(begun == 0, 0, np.minimum(last * self.granularity + into_last, self.num_picked))


@dataclass(frozen=True, slots=True, eq=False)
class ShardedPass:
    """A pass over permuted shards: maps a position to a place on `line`, and this place to a sample id.

    If `line` has only some samples of each shard, `pick_key` selects them: the images of the first offsets of the shard
    under a bijection.
    """

    storage: ShardLine
    line: ShardLine
    permutation: Permutation
    pick_key: int | None = None

    def __call__(self, position: Ints) -> Ints:
        """Samples at positions in [0, size of the line)."""
        shard, offset = self.line.locate(self.permutation(position))
        first = self.storage.starts[shard]
        if self.pick_key is not None:
            size = self.storage.starts[shard + 1] - first
            offset = permute(offset, size, mix(self.pick_key, _PICK_WITHIN, shard))
        return np.asarray(first + offset)


class StreamOrder:
    """The samples of one stream in the order in which an epoch takes them; the order has no end.

    Positions [0, num_planned) are the samples that the epoch planned: whole passes, then a partial pass. Positions
    after them are needed only when the mixture changes; they are in further whole passes. So the sample at a position
    does not change while the epoch runs, even if the mixture does.
    """

    def __init__(
        self, spec: OrderSpec, number: int, shard_sizes: NDArray[np.integer], epoch: int, num_planned: int
    ) -> None:
        """Order in `epoch` of stream `number`, which is part of the key, so that equal streams get different orders."""
        self._spec = spec
        self._sizes = shard_sizes
        self._storage = ShardLine(shard_sizes)
        self._epoch = epoch
        self._planned = num_planned
        self._number = number
        self._pass = lru_cache(maxsize=2)(self._build_pass)

    def sample_ids(self, position: Ints) -> Ints:
        """Samples at positions of the stream's own order (1-d), as numbers in storage order."""
        number, within = self._split(position)
        samples = np.empty(len(position), np.int64)
        for wanted in sorted(set(number.tolist())):
            rows = number == wanted
            samples[rows] = self._pass(wanted)(within[rows])
        return samples

    def _split(self, position: Ints) -> tuple[Ints, Ints]:
        """Pass number and position in that pass."""
        size = self._storage.size
        whole, picked = divmod(self._planned, size) if size else (0, 0)
        number, within = np.divmod(position, max(size, 1))
        if picked:  # the partial pass is shorter, so the next pass begins earlier
            late = position >= self._planned
            number[late] = whole + 1 + (position[late] - self._planned) // size
            within[late] = (position[late] - self._planned) % size
        return number, within

    def _build_pass(self, number: int) -> Permutation:
        whole, picked = divmod(self._planned, self._storage.size)
        key = self._key(_PASS, self._epoch, number)
        if picked and number == whole:
            return self._partial_pass(picked, key)
        if not self._spec.shuffle:
            return lambda position: position
        if self._spec.shuffle_algo is ShuffleAlgo.FULL:
            return FullPermutation(self._storage.size, key)
        line = ShardLine(self._sizes, self._shard_order(key))
        return ShardedPass(self._storage, line, self._block_permutation(line.size, key))

    def _partial_pass(self, num_picked: int, key: int) -> Permutation:
        fixed = self._spec.sampling_method is SamplingMethod.FIXED
        pick_key = self._key(_PICKS, 0 if fixed else self._epoch + 1)
        left_out = self._storage.size - num_picked
        shift = int(mix(pick_key, _PICK_SHIFT)) % (left_out + 1)
        picks = Picks(self._storage.size, num_picked, min(self._spec.sampling_granularity, num_picked), shift)
        if not self._spec.shuffle:
            return picks.place
        counts = np.diff(picks.num_before(self._storage.starts))
        if self._spec.shuffle_algo is ShuffleAlgo.FULL:
            return ShardedPass(self._storage, ShardLine(counts), FullPermutation(num_picked, key), pick_key)
        line = ShardLine(counts, self._shard_order(key))
        return ShardedPass(self._storage, line, self._block_permutation(num_picked, key), pick_key)

    def _shard_order(self, key: int) -> NDArray[np.int32]:
        num_shards = len(self._sizes)
        return permute(np.arange(num_shards), num_shards, mix(key, _SHARD_ORDER)).astype(np.int32)

    def _block_permutation(self, size: int, key: int) -> BlockPermutation:
        num_shards = max(1, len(self._sizes))
        block_size = self._spec.shuffle_block_size or max(1, BLOCK_SHARDS * size // num_shards)
        # With more nodes than shards, neighbouring nodes would share a shard, and small batches would be of few shards.
        block_shards = max(1, (2 * min(block_size, size) * num_shards + size) // (2 * size))
        return BlockPermutation(size, block_size, min(self._spec.num_canonical_nodes, block_shards), key)

    def _key(self, *words: int) -> int:
        return int(mix(self._spec.shuffle_seed, self._number, *words))
