"""Lays the shards of a pass end to end: maps places on this line to shards and offsets, and shards to places."""

import numpy as np
from numpy.typing import NDArray

from headrace.format.lazy import cached_property
from headrace.format.sample_starts import sample_starts
from headrace.streaming.order.bijection import permute, unpermute

_BLOCK = 1 << 15  # shards whose samples are counted together

Ints = NDArray[np.int64]


class ShardLine:
    """Shards end to end. Laid out on first use, and then takes 8 to 12 bytes for each shard."""

    def __init__(self, sizes: NDArray[np.integer], key: int | None = None) -> None:
        """Shards of `sizes` (num_shards,), in the order that `key` gives, or in storage order."""
        self._sizes = sizes
        self._key = key
        self._samples_of_blocks: dict[int, int] = {}

    @cached_property
    def shards(self) -> NDArray[np.int32] | None:
        """int32 (num_shards,); the shards, in the order of the line; None for storage order."""
        return None if self._key is None else self._shards_at(0, len(self._sizes)).astype(np.int32)

    @cached_property
    def starts(self) -> Ints:
        """int64 (num_shards + 1,); the first place of each shard in the order of the line, and the end."""
        return sample_starts(self._sizes if self.shards is None else self._sizes[self.shards])

    @property
    def size(self) -> int:
        """Places on the line."""
        return int(self.starts[-1])

    @property
    def numbers(self) -> NDArray[np.integer]:
        """(num_shards,); the shards, in the order of the line."""
        return np.arange(len(self._sizes)) if self.shards is None else self.shards

    def locate(self, place: Ints) -> tuple[Ints, Ints]:
        """Shard of each place, and the offset in that shard."""
        index = np.searchsorted(self.starts, place, side="right") - 1  # "right" steps over empty shards
        shard = index if self.shards is None else self.shards[index].astype(np.int64)
        return shard, place - self.starts[index]

    def start_and_size(self, shard: Ints) -> tuple[Ints, Ints]:
        """First place of each shard, and its number of places."""
        size = self._sizes[shard].astype(np.int64)
        if self._key is None:
            return self.starts[shard], size
        at = self._places_of(shard)
        if len(shard) == 1 and "starts" not in self.__dict__:
            return np.array([self._samples_before(int(at[0]))]), size
        return self.starts[at], size

    def _samples_before(self, at: int) -> int:
        """Samples of the first `at` shards of the line, without laying out the line.

        Shards of another size than the first one's are corrections. If they are many, all are counted from the nearer
        end.
        """
        if 4 * len(self._unlike) <= len(self._sizes):
            size = int(self._sizes[0])
            is_before = self._places_of(self._unlike) < at
            sizes = self._sizes[self._unlike[is_before]]
            return size * (at - len(sizes)) + int(sizes.sum(dtype=np.int64))
        block = at // _BLOCK
        after = range(block, -(-len(self._sizes) // _BLOCK))
        rest = self._samples_between(block * _BLOCK, at)
        if block <= len(after):
            return sum(map(self._samples_of, range(block))) + rest
        return self._total - sum(map(self._samples_of, after)) + rest

    @cached_property
    def _unlike(self) -> Ints:
        """Shards whose size is not that of the first one."""
        return np.flatnonzero(self._sizes != self._sizes[0])

    @cached_property
    def _total(self) -> int:
        return int(self._sizes.sum(dtype=np.int64))

    def _samples_of(self, block: int) -> int:
        """Samples of a block, which are kept: a later question counts only blocks that none needed before."""
        if block not in self._samples_of_blocks:
            samples = self._samples_between(block * _BLOCK, min((block + 1) * _BLOCK, len(self._sizes)))
            self._samples_of_blocks[block] = samples
        return self._samples_of_blocks[block]

    def _samples_between(self, start: int, stop: int) -> int:
        return int(self._sizes[self._shards_at(start, stop)].sum(dtype=np.int64))

    def _shards_at(self, start: int, stop: int) -> Ints:
        """The shards from one place in the order to another."""
        assert self._key is not None
        return permute(np.arange(start, stop), len(self._sizes), self._key)

    def _places_of(self, shard: Ints) -> Ints:
        """Place of each shard in the order."""
        assert self._key is not None
        return unpermute(shard, len(self._sizes), self._key)
