"""Rejects that are sorted and compared in parts are those that are sorted and compared at once."""

from unittest import mock

import polars as pl
import pytest
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
from headrace.catalog.judging.acceptance import sorted_rejects
from headrace.catalog.tables.buckets import parts_of
from headrace.format.rejects import Reject, compare_rejects
from tests.support.reject_changes import ROWS


@pytest.mark.medium
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
