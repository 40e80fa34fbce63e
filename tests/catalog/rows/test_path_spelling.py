"""Tests of `headrace.catalog.rows.path_spelling`."""

import polars as pl

from headrace.catalog.rows.path_spelling import spelled_as_files, tidy_paths


def test_paths_are_spelled_as_files():
    files = pl.Series(["a.wav", "Cafe\u0301.wav"])
    assert tidy_paths(pl.Series(["./a.wav", "b//c.wav", None])).to_list() == ["a.wav", "b/c.wav", None]
    assert spelled_as_files(pl.Series(["a.wav", "Caf\u00e9.wav", "x\u00e9"]), files).to_list() == [
        "a.wav",
        "Cafe\u0301.wav",
        "x\u00e9",
    ]
