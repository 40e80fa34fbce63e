"""Summaries of columns: what is counted, and what people are shown."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.upkeep.column_summary import SUMMARY_HEADERS, summarize, summary_cells
from headrace_dagster.assets.pictures import column_histograms
from tests.support.column_summary import shard


def test_shards_are_summarized_together():
    first = shard(snr=("float", [1.0, None, 3.0]), title=("string", ["a", "é" * 50, None]))
    second = shard(snr=("float", [3.0, 5.0]), title=("string", ["a", None]))
    snr, title = summarize([first, second])
    assert (snr.num_rows, snr.num_nulls, snr.num_distinct) == (5, 1, 3)
    assert snr.quantiles == pytest.approx((1.0, 1.6, 3.0, 4.4, 5.0))
    assert snr.most_frequent == (("3", 2), ("1", 1), ("5", 1))
    assert (title.num_nulls, title.num_distinct, title.quantiles[-1]) == (2, 2, 50.0)
    assert title.most_frequent[0] == ("a", 2)
    assert len(title.most_frequent[1][0]) == 40
    cells = dict(zip(SUMMARY_HEADERS, summary_cells(snr), strict=True))
    assert (cells["column"], cells["nulls"], cells["median"], cells["largest"]) == ("snr", "1 (20.0%)", "3", "5")


@given(st.lists(st.lists(st.none() | st.floats(-1e6, 1e6) | st.just(math.nan), max_size=5), min_size=1, max_size=4))
def test_every_value_is_in_one_bin_or_null(parts):
    (found,) = summarize([shard(x=("float", values)) for values in parts])
    assert found.num_rows == sum(map(len, parts))
    assert sum(found.counts) == found.num_rows - found.num_nulls
    assert found.num_distinct == len({v for values in parts for v in values if v is not None and not math.isnan(v)})


@pytest.mark.parametrize(("kind", "value"), [("int", 3), ("bool", True), ("json", {"a": [1]}), ("string", "")])
def test_columns_of_nulls_and_of_one_value_have_a_summary_and_no_histogram(kind, value):
    for values in ([None, None], [value, value]):
        summaries = summarize([shard(x=(kind, values))])
        assert len(summary_cells(summaries[0])) == len(SUMMARY_HEADERS)
        assert column_histograms(summaries) == ""
