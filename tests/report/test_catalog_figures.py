"""Tests of `headrace.report.catalog_figures`."""

import polars as pl

from headrace.report.catalog_figures import catalog_figures


def test_a_column_with_few_distinct_texts_is_a_category_and_a_title_is_not():
    assert figures_of(title=[f"{i}" for i in range(40)], genre=["pop", "rock"] * 20).category == "genre"
    assert figures_of(title=[f"{i}" for i in range(40)], genre=["pop"] * 40).category == ""
    assert figures_of(zoo=["a", "b"] * 20, aria=["a", "b"] * 20).category == "aria"
    assert figures_of(language=["a", "b"] * 20, aria=["a", "b"] * 20).category == "language"
    assert figures_of().category == catalog_figures([], ["train"]).category == ""


def figures_of(**columns):
    """Figures of a catalog of 40 recordings in two partitions."""
    rows = pl.DataFrame({"path": [f"{i}.wav" for i in range(40)], "duration_seconds": [36.0] * 40, **columns})
    rows = rows.with_columns(num_channels=pl.lit(1))
    return catalog_figures([("train-0000", rows[:10]), ("test-0000", rows[10:])], ["train", "validation", "test"])


def test_hours_are_added_by_split_and_category():
    genres = ["pop"] * 5 + [None] * 5 + ["rock"] * 30
    hours = {
        split: {k: round(v, 9) for k, v in found.items()} for split, found in figures_of(genre=genres).hours.items()
    }
    assert hours == {"train": {"(none)": 0.05, "pop": 0.05}, "validation": {}, "test": {"rock": 0.3}}
    assert catalog_figures([], ["train"]).hours == {}
