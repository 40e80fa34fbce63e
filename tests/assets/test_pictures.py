"""Pictures of columns and of views."""

import pytest

from headrace.upkeep.column_summary import summarize
from headrace_dagster.assets.pictures import column_histograms
from tests.support.column_summary import shard


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [2**60, 2**60 + 1, 2**60 + 5]),
        ("float", [1.0, 1 + 2**-52, 1 + 2**-51]),
        ("float", [1e308, 0.0, -1e308]),
        ("float", [5e-324, 0.0, 1e-323]),
    ],
)
def test_ranges_that_no_axis_can_show_have_counts_and_no_histogram(kind, values):
    summaries = summarize([shard(x=(kind, values))])
    assert sum(summaries[0].counts) == 3
    assert column_histograms(summaries) == ""


def test_the_name_of_a_column_is_no_formula():
    assert column_histograms(summarize([shard(**{r"$\oops$": ("int", [1, 2])})])) != ""


def test_histograms_are_drawn_of_numbers_and_of_the_lengths_of_texts():
    table = shard(
        x=("int", [1, 2, 3, 4]), text=("string", ["a", "bb", "ccc", None]), same=("string", ["a", "b", "c", "d"])
    )
    picture = column_histograms(summarize([table]))
    assert picture.startswith("![histograms of the columns; of text, its length](data:image/png;base64,")
    assert len(picture) < 40_000
