"""Windows need the length and the rate of each sample."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.streaming.shards.window_shards import _check_known

TIMED, VECTOR = SimpleNamespace(is_timed=True), SimpleNamespace(is_timed=False)
NO_TIME = "its outputs have no time axis"


@pytest.mark.parametrize(
    ("frames", "rates", "outputs", "message"),
    [
        ([0, 5, 5], [1.0, 0.5, 8000.0], (), None),
        ([5, -1, 5], [8000.0, 8000.0, 8000.0], (), "sample 'a'"),
        ([5, 5, -1], [8000.0, 8000.0, 0.0], (), "sample 'b'"),
        ([-1, 5, -1], [0.0, 8000.0, 0.0], (TIMED,), "sample 'c'"),
        ([5, 5, 5], [8000.0, 8000.0, 0.0], (TIMED, VECTOR), "sample 'b'"),
        ([-1, -1, -1], [0.0, 0.0, 0.0], (VECTOR,), NO_TIME),
        ([5, 5, 5], [50.0, 50.0, 50.0], (VECTOR,), None),
    ],
)
def test_the_first_sample_of_unknown_length_or_rate_is_named(frames, rates, outputs, message):
    """The rows are those of a view, which takes the samples of the shard in its own order."""
    index = SimpleNamespace(shard="s.tar", outputs=outputs, key="abc".__getitem__)
    with nullcontext() if message is None else pytest.raises(ConfigError, match=message):
        _check_known(index, np.array([2, 0, 1]), np.array(frames), np.array(rates))
