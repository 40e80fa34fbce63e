"""Describes a batch that is still to be read: the samples of one rank, and their rows in the epoch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.order.epoch_order import Rows


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """One rank's rows of one global batch.

    Attributes:
        epoch: number of the epoch.
        rows: the samples.
        positions: int64 (B,), the row of the epoch of each sample; it seeds every random choice about the sample.
        patient: whether to wait for shards that are being downloaded; False in a cold start, which fetches samples by
            ranged reads.
    """

    epoch: int
    rows: Rows
    positions: NDArray[np.int64]
    patient: bool

    def __len__(self) -> int:
        return len(self.rows)
