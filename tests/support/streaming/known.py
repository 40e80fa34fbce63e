"""Lengths that a test knows, in the form in which orders take them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.errors import FormatError
from headrace.format.manifests.length_census import LengthCensus, count_lengths
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.order.mixing import Mixture


@dataclass
class EarlierScan:
    """Lengths from a function (`order.lengths.KnownLengths`); counts the samples that were asked for.

    Attributes:
        mixture: the streams.
        frames_of: rows → frames.
    """

    mixture: Mixture
    frames_of: Callable[[Rows], np.ndarray]
    num_asked: int = 0

    def __call__(self, rows: Rows) -> np.ndarray:
        self.num_asked += len(rows)
        return self.frames_of(rows)

    def census(self, stream: int) -> LengthCensus:
        sizes = self.mixture.streams[stream].shard_sizes
        samples = np.arange(sizes.sum())
        return count_lengths([(sizes, self.frames_of(Rows(np.full(len(samples), stream, np.int32), samples)))])

    def changed(self, stream: int, shard: int) -> FormatError:
        return FormatError(f"shard {shard} of stream {stream} has changed")
