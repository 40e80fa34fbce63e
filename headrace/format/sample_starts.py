"""Numbers of samples of shards that are end to end. Pure arithmetic."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sample_starts(num_samples: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """int64 (n + 1,); number of the first sample of each of n shards, which are end to end, and of all samples.

    The sums are made in place: with a conversion of types inside `cumsum` it takes twice as long.

    >>> sample_starts(np.array([2, 0, 3], np.int32)).tolist()
    [0, 2, 2, 5]
    """
    starts = np.empty(len(num_samples) + 1, np.int64)
    starts[0] = 0
    starts[1:] = num_samples
    return np.cumsum(starts, out=starts)
