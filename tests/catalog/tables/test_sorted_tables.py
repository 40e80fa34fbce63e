"""Tables that are sorted in parts have the bytes of those that are sorted at once."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.judging.acceptance import REJECT_ORDER, sorted_rejects
from headrace.catalog.stored.parquet_files import parquet_bytes
from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.sorted_tables import sorted_table
from tests.support.reject_changes import ROWS


@pytest.mark.medium
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
