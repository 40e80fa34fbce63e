"""Shared by test_row_acceptance and the tests beside it."""

import polars as pl

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.validation import check_catalog
from headrace.catalog.scanning.scan import scan
from headrace.format.rejects import RejectSubject
from tests.support.catalog_fakes import FakeSource, fake_runtime

FILES = {"a.wav": 100, "b/c.wav": 50, "d.wav": 7}  # frames, at 10 Hz


def source_of(files=FILES, bad=()):
    fake = FakeSource()
    for path, num_frames in files.items():
        fake.put(path, b"x" * num_frames)
    for path in bad:
        fake.put(path, b"bad")
    return fake


def rows_of(table, source=None, previous=None, **asked):
    """Scan, and check what must hold after every scan."""
    wanted = CatalogSettings(**{"settle_seconds": 0, "samples": "rows", **asked})
    result = scan(source or source_of(), previous, wanted, table, fake_runtime())
    check_catalog(result.recordings, result.rejected)
    lost = {origin: result.rejected.filter(pl.col("origin") == origin).height for origin in RejectSubject}
    accepted = result.recordings.height + result.num_merged_rows + result.num_waiting_rows
    assert result.num_rows == accepted + lost[RejectSubject.METADATA]
    assert result.num_found == result.num_used + lost[RejectSubject.FILE] + result.num_unsettled
    return result


def rejects(result, origin=RejectSubject.METADATA):
    return result.rejected.filter(pl.col("origin") == origin).select("path", "code", "reason").rows()
