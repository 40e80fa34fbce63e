"""Tests of `headrace.streaming.order.phases`."""

import numpy as np
import pytest

from headrace.streaming.order.mixing import (
    Mixture,
    StreamSpec,
)
from headrace.streaming.order.phases import current_phase, first_phase
from headrace.streaming.order.spec import OrderSpec
from tests.support.mixing import check_taken


@pytest.mark.parametrize("sizes", [(13, 11), (16, 8), (3, 2), (25, 0)])
def test_what_is_taken_before_each_row_is_known_among_the_last_units_of_the_longer_slots_too(sizes):
    streams = tuple(StreamSpec(name, np.array([size])) for name, size in zip("ab", sizes, strict=True))
    check_taken(current_phase(OrderSpec(1, num_canonical_nodes=8), 0, (first_phase(Mixture(streams)),)).layout)
