"""Rejects that are sorted and compared in parts are those that are sorted and compared at once."""

from unittest import mock

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from headrace.catalog.compared import reject_changes
from headrace.catalog.compared.reject_changes import (
    RejectComparison,
    refused_files,
    rejected_columns,
    rejects_by_subject,
)
from headrace.catalog.judging.acceptance import REJECT_ORDER, sorted_rejects
from headrace.catalog.rows.schemas import REJECTED_SCHEMA
from headrace.catalog.stored.parquet_files import parquet_bytes
from headrace.catalog.tables.buckets import PartTables, parts_of
from headrace.catalog.tables.sorted_tables import sorted_table
from headrace.format.rejects import Reject, RejectSubject, compare_rejects

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(["a.wav", "b.wav", "b.wav (k)", "\u00e9.wav", "key k", "z/z.wav", ""]),
            "reason": st.sampled_from(["empty", "too short"]),
            "code": st.sampled_from(["empty", "too_short", "excluded", "duplicate"]),
            "origin": st.sampled_from(list(map(str, RejectSubject))),
            "key": st.sampled_from(["k", "l", None]),
            "sha256": st.sampled_from(["1", "2", None]),
        }
    ),
    max_size=12,
    unique_by=lambda row: tuple(row[name] or "" for name in REJECT_ORDER),  # whose order is defined
).map(lambda rows: pl.DataFrame(rows, schema=REJECTED_SCHEMA))


@settings(deadline=None, max_examples=40)
@given(before=ROWS, after=ROWS, part_bytes=st.sampled_from([1, 300, 1 << 20]))
def test_any_two_tables_have_the_same_differences_in_parts(before, after, part_bytes):
    before, after = map(sorted_rejects, (before, after))
    with mock.patch.object(reject_changes, "_SLICE_ROWS", 3):
        divided = [rejects_by_subject(table, part_bytes) for table in (before, after)]
    compared, files = RejectComparison(), []
    for part in parts_of(divided, part_bytes):
        compared.add(*(table.part(part) for table in divided))
        files.append(refused_files(divided[1].part(part)).select("path", "sha256"))
    at_once = compare_rejects(
        *([Reject(*row) for row in rejected_columns(table).iter_rows()] for table in (before, after))
    )
    assert compared.changes() == at_once
    assert [list(found) for found in (compared.changes().faults, compared.changes().asked_for)] == [
        list(at_once.faults), list(at_once.asked_for),
    ]  # fmt: skip
    of_files = after.filter(origin="file").select("path", "sha256")
    assert_frame_equal(pl.concat(files), of_files, check_row_order=False)


@settings(deadline=None, max_examples=40)
@given(tables=st.lists(ROWS, min_size=1, max_size=5), most_bytes=st.sampled_from([1, 300, 1 << 20]))
def test_any_tables_are_sorted_with_the_same_bytes_in_parts(tables, most_bytes):
    whole = pl.concat(tables).unique(REJECT_ORDER, maintain_order=True)
    kept = PartTables(most_bytes)
    for start in range(0, max(1, whole.height), 3):
        kept.append(whole.slice(start, 3))
    found = sorted_table(kept, REJECT_ORDER, most_bytes)
    assert found.n_chunks() == 1
    assert parquet_bytes(found, "1") == parquet_bytes(sorted_rejects(whole), "1")
