"""Checks that say what probably means something else: rows of one span, columns of other tools, types that changed."""

import polars as pl
import pytest

from headrace.catalog.compared.type_changes import column_types, type_changes
from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.row_hints import SPAN_COLUMNS, repeated_spans, unused_columns
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.config.source import ColumnsConfig
from headrace.stores.storage import open_storage
from tests.support.catalog_fakes import FakeSource, fake_runtime


def source_of(*names):
    fake = FakeSource()
    for name in names:
        fake.put(name, b"x" * 40)
    return fake


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
    rows = {"path": ["a.wav"] * 2, "start_frame": [0] * 2, "stop_frame": [9] * 2, "field_files": ["x", "y"]}
    nothing = pl.DataFrame(schema={"path": pl.String, "code": pl.String, "key": pl.String})
    assert repeated_spans([pl.DataFrame(rows)], nothing) == []
    taken = pl.DataFrame({"path": ["b.wav"], "code": ["duplicate_key"], "key": ["mine"]})
    assert repeated_spans([], taken) == []  # two rows with one key of the user, which the rejects have


def config_of(views=None, group_by=None, **source):
    return DatasetConfig(
        name="hints",
        source={"uri": "fake", "metadata": "t.csv", "settle_seconds": 0, **source},
        views={name: {"where": where} for name, where in (views or {}).items()},
        group_by=group_by,
        output={"uri": "memory://"},
    )


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


def test_a_column_that_got_another_type_is_named():
    output, source = open_storage("memory://"), source_of("a.wav", "b.wav", "c.wav")
    assert column_types(None) == {}

    def stored(**columns):
        table = pl.DataFrame({"path": ["a.wav", "b.wav"], **columns})
        return StoredCatalog(output, update_catalog(config_of(), source, table, output, fake_runtime())[1])

    before = column_types(stored(votes=[1, 2], sha256=["x", "y"], tags=[[1], []], gone=[True, False]))
    assert before == {"votes": "int", "sha256": "text", "tags": "list", "gone": "bool"}
    after = column_types(stored(votes=["1", "many"], sha256=["x", "y"], tags=[[1], []], new=[1.5, 2.5]))
    (line,) = type_changes(before, after, "the metadata")
    assert line.startswith("the metadata: column 'votes' was int and is text now; declare it in `types`")
    assert type_changes(after, after, "the metadata") == []
