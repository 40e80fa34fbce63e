"""The order of one stream: which of its samples comes at which position, pass after pass.

A pass takes each sample once (a whole pass) or some of them once (a picked pass). It lays the stream's shards out in a
line and maps positions to places on the line. Nothing here is longer than the list of shards: what a position gives is
computed when it is asked.

Must not contain how several streams meet (`interleave`) nor anything about ranks and batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.bijection import mix, permute
from headrace.streaming.spec import OrderSpec, SamplingMethod, ShuffleAlgo

BLOCK_SHARDS = 64
"""Default shuffle block, in shards' worth of samples."""

# One word per use of the hash, so that no two uses share a key.
_SHARD_ORDER, _WITHIN_BLOCK, _FULL, _PICK_PHASE, _PICK_WITHIN = range(1, 6)

Ints = NDArray[np.int64]


class Walk(Protocol):
    """A bijection of [0, size): position in a pass → place on the line."""

    def __call__(self, position: Ints) -> Ints:
        """Places of the positions, same shape."""


@dataclass(frozen=True, slots=True)
class BlockWalk:
    """Mixes positions within blocks of about `block_size`; `num_nodes` walks run through each block side by side.

    Inside a block, position i belongs to node ``i % num_nodes``, which owns a contiguous part of the block and takes it
    in an order of its own::

        line   |----------- block 0 -----------|----------- block 1 ------ ...
        nodes  |  0  |  1  |  2  |  3  |  4  |5|
        order  position 0 from node 0's part, 1 from node 1's, ..., num_nodes from node 0's again

    So any `num_nodes` consecutive positions are spread over the whole block, and positions that are alike modulo the
    world size stay in few parts of it, that is in few shards.
    """

    size: int
    block_size: int
    num_nodes: int
    key: int

    def __call__(self, position: Ints) -> Ints:
        num_blocks = max(1, round(self.size / self.block_size))
        block = ((position + 1) * num_blocks - 1) // self.size
        start = self.size * block // num_blocks
        length = self.size * (block + 1) // num_blocks - start
        step, node = np.divmod(position - start, self.num_nodes)
        part, longer = np.divmod(length, self.num_nodes)
        part_start = start + node * part + np.minimum(node, longer)
        return part_start + permute(step, part + (node < longer), mix(self.key, _WITHIN_BLOCK, block, node))


@dataclass(frozen=True, slots=True)
class FullWalk:
    """Every place on the line alike likely at every position."""

    size: int
    key: int

    def __call__(self, position: Ints) -> Ints:
        return permute(position, self.size, mix(self.key, _FULL))


def storage_walk(position: Ints) -> Ints:
    """The line as it is."""
    return position


class Line:
    """Shards end to end in some order: places on the line ↔ (shard, offset in the shard).

    Holds 12 bytes a shard.
    """

    __slots__ = ("shards", "starts")

    def __init__(self, sizes: NDArray[np.integer], shards: NDArray[np.int32] | None = None) -> None:
        """Lay out shards of `sizes` (num_shards,) in the order `shards`, or in storage order."""
        self.shards = shards
        ordered = sizes if shards is None else sizes[shards]
        self.starts = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(ordered, out=self.starts[1:])

    @property
    def size(self) -> int:
        """Places on the line."""
        return int(self.starts[-1])

    def locate(self, place: Ints) -> tuple[Ints, Ints]:
        """Shard and offset in it, of each place."""
        index = np.searchsorted(self.starts, place, side="right") - 1  # after shards that are empty
        offset = place - self.starts[index]
        return (index if self.shards is None else self.shards[index].astype(np.int64)), offset
