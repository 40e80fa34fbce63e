"""The counts of the lengths of a partition's samples, as its manifest has them.

They are those of whole samples at their own rate. So a loader knows how many samples of which length each shard has,
without reading the indexes of all shards (`streaming.stored_lengths`).
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from headrace.format.indexes.index import ShardIndex
from headrace.format.manifests.length_census import KINDS, NUM_CELLS, LengthCensus, count_lengths


@dataclass(frozen=True, slots=True)
class StoredCensus:
    """The counts of the lengths of a partition, as its manifest has them.

    Attributes:
        rate_hz: frames per second of every sample; 0 if it is not the same for all.
        first_cell: see `LengthCensus`.
        longest: see `LengthCensus`.
        count_bytes: bytes of a count: 1, 2, 4 or 8.
        counts: the counts of all shards with samples, in order, as little-endian integers in base64.
    """

    rate_hz: float
    first_cell: Annotated[int, range(NUM_CELLS)]
    longest: list[int]
    count_bytes: int
    counts: str

    @classmethod
    def of(cls, census: LengthCensus, rate_hz: float) -> Self:
        """The form of these counts that a manifest has."""
        counts = census.counts.astype(census.counts.dtype.newbyteorder("<"))
        return cls(
            rate_hz=rate_hz,
            first_cell=census.first_cell,
            longest=census.longest.tolist(),
            count_bytes=counts.itemsize,
            counts=base64.b64encode(counts.tobytes()).decode(),
        )

    @property
    def census(self) -> LengthCensus:
        """The counts. Raises `ValueError` if the fields do not fit together."""
        kinds = {np.dtype(kind).itemsize: np.dtype(kind).newbyteorder("<") for kind in KINDS}
        if self.count_bytes not in kinds:
            raise ValueError(f"counts of {self.count_bytes} bytes: expected one of {', '.join(map(str, kinds))}")
        kind = kinds[self.count_bytes]
        counts = np.frombuffer(base64.b64decode(self.counts, validate=True), kind)
        table = counts.reshape(-1, len(self.longest)) if self.longest else np.zeros((0, 0), kind)
        return LengthCensus(self.first_cell, table, np.array(self.longest, np.int64))


def census_of(indexes: Sequence[ShardIndex]) -> StoredCensus | None:
    """The counts of the samples of a partition, given all its shards in order.

    Returns:
        None if the length of a sample is not known. Shards without samples have no row.
    """
    found = [index for index in indexes if len(index)]
    lengths = np.concatenate([np.zeros(0, np.int64), *(index.lengths for index in found)])
    if (lengths < 0).any():
        return None
    rates = {rate for index in found for rate in _rates_hz(index)}
    census = count_lengths([(np.array([len(index) for index in found], np.int64), lengths)])
    return StoredCensus.of(census, rates.pop() if len(rates) == 1 else 0)


def _rates_hz(index: ShardIndex) -> list[float]:
    """The different numbers of frames per second in a shard: of the audio, or else of the latents."""
    audio = index.sample_rate_hz.astype(np.float64)
    return list(np.unique(np.where(audio > 0, audio, index.latent_rate_hz)).tolist())
