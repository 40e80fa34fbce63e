"""Checks that say what probably means something else: rows of one span, columns of other tools, types that changed."""

import polars as pl
import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.row_hints import SPAN_COLUMNS, repeated_spans, unused_columns
from headrace.catalog.scanning.scan import scan
from headrace.config.source import ColumnsConfig
from tests.support.catalog_fakes import fake_runtime
from tests.support.row_hints import config_of, source_of


@pytest.mark.parametrize("keys", [["k1", "k2", "k3", "k4"], None])
def test_rows_that_name_the_span_of_another_row_are_named(keys):
    table = pl.DataFrame({"path": ["a.wav", "a.wav", "b.wav", "b.wav"], "start": [0, 0, 0, 1], "channel": [0, 1, 0, 0]})
    table = table if keys is None else table.with_columns(utt=pl.Series(keys))
    columns = ColumnsConfig() if keys is None else ColumnsConfig(key="utt")
    asked = CatalogSettings(settle_seconds=0, samples="rows", columns=columns)
    found = scan(source_of("a.wav", "b.wav"), None, asked, table, fake_runtime())
    (line,) = repeated_spans([found.recordings.select(SPAN_COLUMNS)], found.rejected)
    assert line.startswith("a.wav names a span that an earlier row names")


def test_rows_with_other_files_of_a_field_name_other_spans():
    rows = {
        "path": ["a.wav"] * 2,
        "start_frame": [0] * 2,
        "stop_frame": [9] * 2,
        "channels": [None] * 2,
        "field_files": ["x", "y"],
    }
    nothing = pl.DataFrame(schema={"path": pl.String, "code": pl.String, "key": pl.String})
    assert repeated_spans([pl.DataFrame(rows)], nothing) == []
    taken = pl.DataFrame({"path": ["b.wav"], "code": ["duplicate_key"], "key": ["mine"]})
    assert repeated_spans([], taken) == []  # two rows with one key of the user, which the rejects have


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, ["_skipme", "channel"]),
        ({"where": "_skipme is null or _skipme = 0"}, ["channel"]),
        ({"views": {"first": "channel = 0"}}, ["_skipme"]),
        ({"group_by": "channel"}, ["_skipme"]),
        ({"where": "x_skipme = 1 and channels = 1"}, ["_skipme", "channel"]),
        ({"samples": "rows", "columns": {"key": "channel"}}, ["_skipme"]),
    ],
)
def test_columns_of_other_tools_that_nothing_uses_are_named_with_what_to_write(changes, named):
    lines = unused_columns(["text", "_skipme", "channel"], config_of(**changes))
    assert [line.split("'")[1] for line in lines] == named
    assert all("write" in line for line in lines)
    assert unused_columns(["text", "channels"], config_of()) == []
