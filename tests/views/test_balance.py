"""Balance: how often the samples of a group come, for any sizes of groups."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.format.beside.views import Balance
from headrace.views.balance import Balancing, key_digests

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=6)


def counts(sizes, alpha):
    """Group and count of each sample, and the keys."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    np.random.default_rng(3).shuffle(groups)
    keys = [f"key{number}" for number in range(len(groups))]
    balancing = Balancing.of(Balance("g", alpha), np.array(sizes), [f"g{n}" for n in range(len(sizes))])
    return groups, balancing.counts(groups, key_digests(keys)), keys


@given(SIZES)
def test_alpha_1_changes_nothing(sizes):
    assert (counts(sizes, 1.0)[1] == 1).all()


@given(SIZES)
def test_alpha_0_makes_groups_equal(sizes):
    groups, found, _ = counts(sizes, 0.0)
    totals = np.bincount(groups, found, minlength=len(sizes))
    assert (totals == max(sizes)).all()


@given(SIZES, st.floats(0, 1))
def test_samples_come_as_often_as_the_formula_says(sizes, alpha):
    groups, found, keys = counts(sizes, alpha)
    for group, size in enumerate(sizes):
        times = (max(sizes) / size) ** (1 - alpha)
        whole = math.floor(times)
        more = round(size * (times - whole))
        own = [place for place in range(len(groups)) if groups[place] == group]
        by_digest = sorted(own, key=lambda place: hashlib.sha256(keys[place].encode()).hexdigest())
        assert [found[place] for place in by_digest] == [whole + (rank < more) for rank in range(size)]


def test_more_than_255_copies_are_an_error_that_names_the_group():
    assert counts([255, 1], 0.0)[1].max() == 255
    with pytest.raises(ConfigError, match=r"each of the 1 samples of group 'g1' would come 256\.0 times"):
        counts([256, 1], 0.0)
    with pytest.raises(ConfigError, match="at most 255"):  # 255 and one more
        counts([511, 2], 0.0)
