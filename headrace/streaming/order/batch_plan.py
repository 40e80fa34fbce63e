"""What a batch is before anything of it is read: which samples of which epoch, and where they are in it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.order.epoch_order import Rows


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """One rank's rows of one global batch.

    Attributes:
        epoch: number of the epoch.
        rows: which samples.
        positions: int64 (B,), the row of the epoch that each is: seeds of what is random about a sample.
        patient: wait for shards that are on their way; False in a cold start, which fetches samples by ranged reads.
    """

    epoch: int
    rows: Rows
    positions: NDArray[np.int64]
    patient: bool = True

    def __len__(self) -> int:
        return len(self.rows)
