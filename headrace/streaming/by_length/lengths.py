"""The lengths of samples, as the orders by length ask for them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError
from headrace.format.manifests.length_census import LengthCensus
from headrace.streaming.order.epoch_order import Rows

Ints = NDArray[np.int64]


class Lengths(Protocol):
    """Frames of each row's sample: rows without padding (num_rows,) → int64 (num_rows,)."""

    def __call__(self, rows: Rows, /) -> Ints:
        """The lengths."""


class KnownLengths(Lengths, Protocol):
    """Lengths of samples, and how many of which length each shard has."""

    def census(self, stream: int) -> LengthCensus:
        """The counts of a stream, by its number in the mixture."""

    def changed(self, stream: int, shard: int) -> HeadraceError:
        """The error for a shard whose lengths are not those that were counted; it names the shard and a remedy."""


@dataclass(frozen=True, slots=True)
class StreamLengths:
    """The lengths of one stream of a mixture.

    Attributes:
        lengths: those of all streams.
        stream: number of the stream.
    """

    lengths: KnownLengths
    stream: int

    def of(self, samples: Ints) -> Ints:
        """Frames of samples (n,), by their numbers in storage order, int64 (n,)."""
        return self.lengths(Rows(np.full(len(samples), self.stream, np.int32), samples))

    def changed(self, shard: int) -> HeadraceError:
        """See `KnownLengths.changed`."""
        return self.lengths.changed(self.stream, shard)
