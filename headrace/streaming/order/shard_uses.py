"""Computes when the order takes samples of a shard next, without looking at single samples.

A shard is in one shuffle block of a pass, or in a few, and its samples are spread over the block. So the position at
which its block begins is its next use, and after the end of the block the shard is not needed until another pass. That
is exact enough to choose what a cache evicts, and costs a few numpy calls for all shards that are asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.order.passes import BlockPermutation, FullPermutation, Ints, Pass, Picks, StreamOrder, node_of
from headrace.streaming.recent import Recent

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """For each shard, positions of a pass among which its samples are spread.

    Attributes:
        first: the first position.
        stop: the position after the last; equal to `first` where the piece is empty.
        offset: its samples are at positions equal to one of ``offset .. offset + count - 1``, modulo the number of
            nodes that take turns in the block.
        count: number of these.
    """

    first: Ints
    stop: Ints
    offset: Ints
    count: Ints


class ShardUses:
    """The next uses of the shards of one stream in one epoch.

    Attributes:
        stream: the order of the stream.
        slack: positions by which a sample may come earlier or later than the stream's own order says.
    """

    def __init__(self, stream: StreamOrder, slack: int = 0) -> None:
        self.stream = stream
        self.slack = slack
        self._passes: Recent[int, _PassUses] = Recent(2)

    def distances(self, shards: Ints, position: int, wanted: Flags) -> NDArray[np.float64]:
        """Positions from `position` to the next use of each shard, float64 (n,).

        0 for a shard whose block has begun, infinity for one that neither this pass nor the next one of the epoch
        takes. Never more than the distance to the next sample that is really taken at a wanted position.

        Args:
            shards: numbers of shards, (n,).
            position: position in the stream, from 0 on.
            wanted: (g,), which positions count: those whose number modulo g is marked.
        """
        found = np.full(len(shards), np.inf)
        if not self.stream.size:
            return found
        numbers, places = self.stream.split(np.array([position]))
        number, within = int(numbers[0]), int(places[0])
        start = position - within
        for _ in range(2):
            if start >= self.stream.num_planned:
                break
            uses = self._passes.get(number, self._uses_of)
            left = uses.distances(shards, position - start, (wanted, start, self.slack))
            found = np.minimum(found, left)
            start += self.stream.size_of_pass(number)
            number += 1
        return found

    def _uses_of(self, number: int) -> "_PassUses":
        return _PassUses(self.stream.build_pass(number), self.stream, number)


class _PassUses:
    """Places of a stream's shards in one pass. Keeps 8 bytes for each shard."""

    def __init__(self, made: Pass, stream: StreamOrder, number: int) -> None:
        self._permutation = made.permutation
        self._size = stream.size_of_pass(number)
        self._sizes = stream.shard_sizes if made.pick_key is None else stream.picked_of_shards
        if made.line.shards is None:
            self._starts = made.line.starts[:-1]
        else:
            self._starts = np.empty(len(made.line.shards), np.int64)
            self._starts[made.line.shards] = made.line.starts[:-1]

    def distances(self, shards: Ints, within: int, how: tuple[Flags, int, int]) -> NDArray[np.float64]:
        """Positions from `within`, which may be negative before the pass, to the next use; infinity without one."""
        wanted, pass_start, slack = how
        if isinstance(self._permutation, BlockPermutation):
            folded = wanted.reshape(-1, gcd(len(wanted), int(self._permutation.num_nodes)))
            wanted = np.asarray(folded.any(axis=0))
        found = np.full(len(shards), np.inf)
        for piece in self._pieces(self._starts[shards], self._sizes[shards].astype(np.int64)):
            is_ahead = (piece.stop > piece.first) & (piece.stop + slack > within)
            is_ahead &= _has_any(wanted, piece.offset + pass_start, piece.count)
            left = np.maximum(piece.first - slack - within, 0)
            found = np.where(is_ahead, np.minimum(found, left), found)
        return found

    def _pieces(self, start: Ints, size: Ints) -> Iterator[_Piece]:
        """The pieces of shards that begin at these places of the line."""
        stop = start + size
        permutation = self._permutation
        if isinstance(permutation, BlockPermutation):
            yield from _block_pieces(permutation, start, stop)
        elif isinstance(permutation, FullPermutation):
            everything = np.where(size > 0, self._size, 0)
            yield _Piece(np.zeros_like(start), everything, np.zeros_like(start), everything)
        else:
            if isinstance(permutation, Picks):
                start, stop = permutation.num_before(start), permutation.num_before(stop)
            yield _Piece(start, stop, start, stop - start)


def _block_pieces(blocks: BlockPermutation, start: Ints, stop: Ints) -> Iterator[_Piece]:
    """The parts of shards in their first block, in their last, and in the blocks between.

    Places and positions of a block are the same range, and a canonical node owns a part of the places.
    """
    size, block_size = int(blocks.size), int(blocks.block_size)
    num_blocks = max(1, (2 * size + block_size) // (2 * block_size))
    last = np.maximum(stop - 1, start)
    first_block, last_block = (((place + 1) * num_blocks - 1) // size for place in (start, last))
    ends = [(size * (block + more) // num_blocks) for block, more in ((first_block, 1), (last_block, 0))]
    between = np.maximum(ends[1] - ends[0], 0)
    yield _Piece(ends[0], ends[0] + between, ends[0], between)
    for block, low, high in (
        (first_block, start, np.minimum(stop, ends[0])),
        (last_block, np.maximum(start, ends[1]), stop),
    ):
        begin = size * block // num_blocks
        end = size * (block + 1) // num_blocks
        nodes = [
            node_of(place - begin, end - begin, int(blocks.num_nodes)) for place in (low, np.maximum(high - 1, low))
        ]
        yield _Piece(begin, np.where(high > low, end, begin), begin + nodes[0], nodes[1] - nodes[0] + 1)


def _has_any(wanted: Flags, offset: Ints, count: Ints) -> Flags:
    """Whether one of ``offset .. offset + count - 1`` is marked modulo the length of `wanted`."""
    modulus = len(wanted)
    marked = np.concatenate([[0], np.cumsum(np.tile(wanted, 2))])
    low = offset % modulus
    return np.asarray(marked[low + np.clip(count, 0, modulus)] > marked[low])
