"""Recordings of one group are in one partition; groups with the same bytes are merged on demand."""

from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.stored.partitions import merged_groups, num_samples, own_groups, partition_sizes
from headrace.errors import ConfigError

ROWS = pl.DataFrame({"path": ["a", "b", "c"], "artist": ["x", None, "x"], "chords": [[1], [2], [3]]})


def test_the_group_is_the_value_of_the_column_or_the_path():
    assert own_groups(ROWS, None).to_list() == ["a", "b", "c"]
    assert own_groups(ROWS, "artist").to_list() == ["x", "b", "x"]
    assert own_groups(ROWS.clear(), "unknown").to_list() == []


@pytest.mark.parametrize(("name", "message"), [("singer", "no column 'singer'"), ("chords", "holds lists")])
def test_a_column_that_cannot_group_is_an_error(name, message):
    with pytest.raises(ConfigError, match=message):
        own_groups(ROWS, name)


@pytest.mark.medium
@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("123456")), max_size=15), st.randoms())
def test_merged_groups_are_the_connected_ones_in_any_order(members, random):
    expected = {group: {group} for group, _ in members}
    for content in "123456":
        together = set().union(*(expected[group] for group, found in members if found == content))
        for group in together:
            expected[group] = together
    shuffled = random.sample(members, len(members))
    assert merged_groups(shuffled) == {group: min(together) for group, together in expected.items()}


def test_samples_are_counted_in_segments_with_at_least_one():
    rows = pl.DataFrame({"duration_seconds": [0.5, 3.0, 3.1]})
    assert num_samples(rows, None) == 3
    assert num_samples(rows, 3.0) == 4


def test_partitions_without_recordings_have_no_size():
    entries = [
        SimpleNamespace(partition=name, num_rows=count, num_samples=2 * count, seconds=1.5 * count)
        for name, count in (("p", 3), ("q", 0))
    ]
    (size,) = partition_sizes(SimpleNamespace(partitions=dict(enumerate(entries)))).items()
    assert (size[0], size[1].num_samples, size[1].seconds) == ("p", 6, 4.5)
