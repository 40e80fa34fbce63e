"""Tests of `headrace.format.beside.views`."""

import numpy as np

from headrace.format.beside.views import Balance
from headrace.views.balance import Balancing


def test_no_samples_have_no_groups():
    none = Balancing.of(Balance("g", 0.5), np.zeros(0, np.int64), [])
    assert len(none.counts(np.zeros(0, np.int64), np.zeros((0, 2), np.uint64))) == 0
