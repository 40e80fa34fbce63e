"""Computes the order of one stream: the sample at each position, pass after pass.

A whole pass takes each sample once; a partial pass takes selected samples once. The shards of the stream form a line,
end to end, and a pass maps positions to places on the line. The sample at a position is computed when it is needed, so
no array is longer than the list of shards. How several streams are combined is in `interleave`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.format.lazy import cached_property
from headrace.streaming.order.bijection import mix, permute, unpermute
from headrace.streaming.order.shard_line import ShardLine
from headrace.streaming.order.spec import OrderSpec, SamplingMethod, ShuffleAlgo
from headrace.streaming.recent import Recent

BLOCK_SHARDS = 64
"""Default size of a shuffle block: the samples of this many shards."""

# One number for each use of the hash, so that no two uses share a key.
_PASS, _SHARD_ORDER, _BLOCK, _FULL, _PICKS, _PICK_SHIFT, _PICK_WITHIN = range(1, 8)

Ints = NDArray[np.int64]
Whole = int | Ints
"""A number for all positions, or one for each."""


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

    size: Whole
    block_size: Whole
    num_nodes: Whole
    key: int | NDArray[np.uint64]

    def __call__(self, position: Ints) -> Ints:
        """Places of positions in [0, size)."""
        start, length, block = self.block_of(position)
        step, node = np.divmod(position - start, self.num_nodes)
        part, longer = np.divmod(length, self.num_nodes)  # the first `longer` nodes own one place more
        place = permute(step, part + (node < longer), mix(self.key, _BLOCK, block, node))
        return np.asarray(start + node * part + np.minimum(node, longer) + place)

    def inverse(self, place: Ints) -> Ints:
        """Positions of places in [0, size)."""
        start, length, block = self.block_of(place)
        node = node_of(place - start, length, self.num_nodes)
        part, longer = np.divmod(length, self.num_nodes)
        step = place - start - node * part - np.minimum(node, longer)
        step = unpermute(step, part + (node < longer), mix(self.key, _BLOCK, block, node))
        return np.asarray(start + step * self.num_nodes + node)

    def block_of(self, position: Ints) -> tuple[Ints, Ints, Ints]:
        """Begin, length and number of the block of each position, or of each place: a block has the same of both."""
        num_blocks = np.maximum(1, (2 * self.size + self.block_size) // (2 * self.block_size))
        block = ((position + 1) * num_blocks - 1) // self.size  # block b is [size*b // num_blocks, size*(b+1) // …)
        start = self.size * block // num_blocks
        return start, self.size * (block + 1) // num_blocks - start, block


@dataclass(frozen=True, slots=True)
class FullPermutation:
    """Shuffles all places: every order is equally likely."""

    size: Whole
    key: int | NDArray[np.uint64]

    def __call__(self, position: Ints) -> Ints:
        """Places of positions in [0, size)."""
        return permute(position, self.size, mix(self.key, _FULL))

    def inverse(self, place: Ints) -> Ints:
        """Positions of places in [0, size)."""
        return unpermute(place, self.size, mix(self.key, _FULL))


@dataclass(frozen=True, slots=True)
class Picks:
    """Selects `num_picked` places of a line of `size`, in runs of `granularity`, spread evenly over the line.

    Each shard gives its share, plus or minus 1. The `size - num_picked` places that are left out are distributed to the
    gaps between the runs, before the first and after the last, as evenly as whole numbers allow. `shift` in
    [0, size - num_picked] shifts the whole pattern.
    """

    size: Whole
    num_picked: Whole
    granularity: Whole
    shift: Whole

    @property
    def _num_runs(self) -> Whole:
        return -(-self.num_picked // self.granularity)

    def __call__(self, pick: Ints) -> Ints:
        """Return `place` of the selected samples, so that the object is called like the permutations."""
        return self.place(pick)

    def place(self, pick: Ints) -> Ints:
        """Place of each selected sample in [0, num_picked); increasing, distinct, and in [0, size)."""
        skipped = (pick // self.granularity * (self.size - self.num_picked) + self.shift) // self._num_runs
        return np.asarray(pick + skipped)

    def inverse(self, place: Ints) -> Ints:
        """Number of each selected place; -1 for a place that is left out."""
        pick = self.num_before(place)
        return np.where(self.place(np.minimum(pick, self.num_picked - 1)) == place, pick, -1)

    def num_before(self, place: Ints) -> Ints:
        """Number of selected places below each place in [0, size]: the inverse of `place`, in closed form."""
        runs, left_out = self._num_runs, self.size - self.num_picked
        stride = self.granularity * runs + left_out  # run r starts at (r * stride + shift) // runs
        begun = np.clip(-((self.shift - place * runs) // stride), 0, runs)
        last = np.maximum(begun - 1, 0)
        into_last = np.minimum(place - (last * stride + self.shift) // runs, self.granularity)
        return np.where(begun == 0, 0, np.minimum(last * self.granularity + into_last, self.num_picked))


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A pass over a stream: maps a position to a place on `line`, and this place to a sample.

    Attributes:
        line: the shards in the order of the pass, with the samples that the pass takes of each. It is the line in
            storage order if places on it are the samples' own numbers.
        permutation: maps positions to places; None if they are equal.
        pick_key: if `line` has only some samples of each shard, selects them: the images of the first offsets of the
            shard under a bijection.
    """

    line: ShardLine
    permutation: "BlockPermutation | FullPermutation | Picks | None" = None
    pick_key: int | None = None

    def sample_ids(self, position: Ints, storage: ShardLine) -> Ints:
        """Samples at positions in [0, size of the line), as numbers on the line in storage order."""
        place = position if self.permutation is None else self.permutation(position)
        if self.line is storage:
            return place
        shard, offset = self.line.locate(place)
        first = storage.starts[shard]
        if self.pick_key is not None:
            offset = pick_within(self.pick_key, shard, storage.starts[shard + 1] - first, offset)
        return np.asarray(first + offset)

    def positions(self, samples: Ints, storage: ShardLine) -> Ints:
        """Position of each sample in the pass, the inverse of `sample_ids`; -1 if a partial pass leaves it out."""
        if self.line is storage:
            return samples if self.permutation is None else self.permutation.inverse(samples)
        shard, offset = storage.locate(samples)
        start, size = self.line.start_and_size(shard)
        if self.pick_key is not None:
            key = mix(self.pick_key, _PICK_WITHIN, shard)
            offset = unpermute(offset, storage.starts[shard + 1] - storage.starts[shard], key)
        is_taken = offset < size
        place = start + np.where(is_taken, offset, 0)
        position = place.copy()
        if self.permutation is not None:  # a shard without a sample in the pass may be at the end of the line
            position[is_taken] = self.permutation.inverse(place[is_taken])
        return np.where(is_taken, position, -1)


def node_of(place: Ints, length: Ints, num_nodes: Whole) -> Ints:
    """The canonical node that owns each place of a block; the first `length % num_nodes` nodes own one place more."""
    part, longer = np.divmod(length, num_nodes)
    in_longer = longer * (part + 1)
    rest = longer + (place - in_longer) // np.maximum(part, 1)
    return np.asarray(np.where(place < in_longer, place // (part + 1), rest))


def pick_within(pick_key: int | NDArray[np.uint64], shard: Ints, size: Ints, offset: Ints) -> Ints:
    """Offset in its shard of each sample that a partial pass selects, by its number among those of the shard."""
    return permute(offset, size, mix(pick_key, _PICK_WITHIN, shard))


class StreamOrder:
    """The samples of one stream in the order in which an epoch takes them; the order has no end.

    Positions [0, num_planned) are the samples that the epoch planned: whole passes, then a partial pass. Positions
    after them are needed only when the mixture changes; they are in further whole passes. So the sample at a position
    does not change while the epoch runs, even if the mixture does.

    Attributes:
        shard_sizes: (num_shards,); samples of each shard, in storage order.
        size: samples of the stream, each counted once.
        num_planned: samples that the epoch planned.
        num_whole: whole passes among them.
        num_picked: samples of the partial pass that follows; 0 without one.
    """

    def __init__(
        self, spec: OrderSpec, number: int, shard_sizes: NDArray[np.integer], epoch: int, num_planned: int
    ) -> None:
        """Order in `epoch` of stream `number`, which is part of the key, so that equal streams get different orders."""
        self.shard_sizes = shard_sizes
        self.num_planned = num_planned
        self._spec = spec
        self._epoch = epoch
        self._number = number
        self.size = int(shard_sizes.sum(dtype=np.int64))
        self.num_whole, self.num_picked = divmod(num_planned, self.size) if self.size else (0, 0)
        self._passes: Recent[int, Pass] = Recent(2)

    @property
    def is_shuffled(self) -> bool:
        """Whether the stream is not in storage order."""
        return self._spec.shuffle

    @cached_property
    def storage(self) -> ShardLine:
        """The shards in storage order; laid out on first use, which a check of the settings never needs."""
        return ShardLine(self.shard_sizes)

    @property
    def storage_starts(self) -> Ints:
        """int64 (num_shards + 1,); the number of the first sample of each shard, and of all samples."""
        return self.storage.starts

    def sample_ids(self, position: Ints) -> Ints:
        """Samples at positions of the stream's own order (1-d), as numbers in storage order."""
        number, within = self.split(position)
        samples = np.empty(len(position), np.int64)
        for wanted in sorted(set(number.tolist())):
            rows = number == wanted
            samples[rows] = self._passes.get(wanted, self.build_pass).sample_ids(within[rows], self.storage)
        return samples

    def positions(self, samples: Ints, stop: int) -> list[tuple[int, Ints]]:
        """Positions of samples, given by their numbers in storage order: the inverse of `sample_ids`.

        Args:
            samples: int64 (n,).
            stop: only passes that begin before this position are searched.

        Returns:
            The first position of each pass, and the positions in it of the samples that it takes, int64 (m,).
        """
        found = []
        for number, start in self.passes_before(stop):
            within = self._passes.get(number, self.build_pass).positions(samples, self.storage)
            found.append((start, start + within[within >= 0]))
        return found

    def passes_before(self, stop: int) -> Iterator[tuple[int, int]]:
        """Number and first position of each pass that begins before a position."""
        number = start = 0
        while start < stop and self.size:
            yield number, start
            start += self.size_of_pass(number)
            number += 1

    def split(self, position: Ints) -> tuple[Ints, Ints]:
        """Pass of each position, and position in that pass."""
        number, within = np.divmod(position, max(self.size, 1))
        if self.num_picked:  # the partial pass is shorter, so the next pass begins earlier
            late = position >= self.num_planned
            number[late] = self.num_whole + 1 + (position[late] - self.num_planned) // self.size
            within[late] = (position[late] - self.num_planned) % self.size
        return number, within

    def size_of_pass(self, number: int) -> int:
        """Samples of a pass."""
        return self.num_picked if self.num_picked and number == self.num_whole else self.size

    def pass_key(self, number: int) -> int:
        """Key of the shuffles of a pass."""
        return self._key(_PASS, self._epoch, number)

    def shards_of_pass(self, key: int) -> NDArray[np.int32] | None:
        """int32 (num_shards,), the order of the shards in the pass with this key; None for storage order."""
        return ShardLine(self.shard_sizes, self._shards_key(key)).shards

    def _shards_key(self, key: int) -> int | None:
        """Key of the order of the shards in the pass with this key; None for storage order."""
        if not self._spec.shuffle or self._spec.shuffle_algo is ShuffleAlgo.FULL:
            return None
        return int(mix(key, _SHARD_ORDER))

    def block_size(self, size: int) -> int:
        """Samples of a shuffle block in a pass of `size` samples; all of them if the whole pass is mixed."""
        if self._spec.shuffle and self._spec.shuffle_algo is ShuffleAlgo.FULL:
            return max(1, size)
        num_shards = max(1, len(self.shard_sizes))
        return self._spec.shuffle_block_size or max(1, BLOCK_SHARDS * size // num_shards)

    @cached_property
    def pick_key(self) -> int:
        """Key that selects the samples of the partial pass."""
        fixed = self._spec.sampling_method is SamplingMethod.FIXED
        return self._key(_PICKS, 0 if fixed else self._epoch + 1)

    @cached_property
    def picked_of_shards(self) -> Ints:
        """int64 (num_shards,); samples that the partial pass takes of each shard."""
        return np.diff(self._picks.num_before(self.storage.starts))

    @cached_property
    def _picks(self) -> Picks:
        left_out = self.size - self.num_picked
        shift = int(mix(self.pick_key, _PICK_SHIFT)) % (left_out + 1)
        return Picks(self.size, self.num_picked, min(self._spec.sampling_granularity, self.num_picked), shift)

    def build_pass(self, number: int) -> Pass:
        """A pass by its number; `sample_ids` keeps the last two."""
        key = self.pass_key(number)
        size = self.size_of_pass(number)
        is_partial = size < self.size
        if not self._spec.shuffle:
            return Pass(self.storage, self._picks if is_partial else None)
        is_full = self._spec.shuffle_algo is ShuffleAlgo.FULL
        if is_full and not is_partial:
            return Pass(self.storage, FullPermutation(size, key))
        line = ShardLine(self.picked_of_shards if is_partial else self.shard_sizes, self._shards_key(key))
        permutation = FullPermutation(size, key) if is_full else self._block_permutation(size, key)
        return Pass(line, permutation, self.pick_key if is_partial else None)

    def _block_permutation(self, size: int, key: int) -> BlockPermutation:
        num_shards = max(1, len(self.shard_sizes))
        block_size = self.block_size(size)
        # With more nodes than shards, neighbouring nodes would share a shard, and small batches would be of few shards.
        block_shards = max(1, (2 * min(block_size, size) * num_shards + size) // (2 * size))
        return BlockPermutation(size, block_size, min(self._spec.num_canonical_nodes, block_shards), key)

    def _key(self, *words: int) -> int:
        return int(mix(self._spec.shuffle_seed, self._number, *words))
