"""Tests of `headrace.catalog.tables.buckets`."""

import sys
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.tables.buckets import ALL, NUM_BUCKETS, Buckets, PartTables, bucket_of_paths, parts_of
from headrace.errors import StorageError


@pytest.mark.medium
@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.integers(0, 40), max_size=9), max_size=6), st.sampled_from([1, 60, None]))
def test_buckets_keep_every_row_once_and_rows_of_a_path_in_order(batches, most_bytes):
    schema = pl.Schema({"path": pl.String, "n": pl.Int64})
    buckets, added, count = Buckets(schema, most_bytes), [], 0
    for batch in batches:
        rows = [(f"{value}.wav", count + place) for place, value in enumerate(batch)]
        count += len(rows)
        added += rows
        table = pl.DataFrame(rows, schema=schema, orient="row")
        buckets.add(table, bucket_of_paths(table["path"]))
    halves = [range(30), range(30, NUM_BUCKETS)]
    for parts in (lambda: [ALL], lambda: halves, lambda: parts_of([buckets], 200), lambda: halves):  # the third writes
        found = [row for part in parts() for row in buckets.part(part).iter_rows()]
        assert sorted(found) == sorted(added)
        for path in {path for path, _ in added}:
            assert [row for row in found if row[0] == path] == [row for row in added if row[0] == path]
    buckets.close()


def test_part_tables_are_read_in_any_order():
    tables = [pl.DataFrame({"n": range(size)}) for size in (3, 0, 500, 2, 700)]
    kept = PartTables(most_bytes=1000)
    for table in tables:
        kept.append(table)
    assert [kept[number].equals(tables[number]) for number in (4, 0, 2, 1, 3)] == [True] * 5
    assert kept.num_rows == 1205
    assert [table.height for table in kept] == [3, 0, 500, 2, 700]
    kept.close()


def test_two_spellings_of_an_accent_are_in_one_bucket():
    assert bucket_of_paths(pl.Series(["\u00e9.wav", "e\u0301.wav"])).n_unique() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_full_temporary_folder_is_an_error_that_names_it_and_the_way_out(monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    rows = Buckets(pl.Schema({"path": pl.String}), most_bytes=1)
    with pytest.raises(StorageError, match=r"^temporary folder /\S+: .* \(No space left on device\); .* TMPDIR"):
        rows.add(pl.DataFrame({"path": ["a.wav"]}), pl.Series([0]))
    rows.close()
