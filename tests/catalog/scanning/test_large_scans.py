"""Scans of many files: what an unchanged source costs."""

import time

import polars as pl
import pytest

from headrace.catalog.rows.schemas import STAMP_SCHEMA
from headrace.catalog.scanning.scan import Catalog, scan
from headrace.sources.listing import Listing
from tests.support.catalog_fakes import (
    AT_ONCE,
    OLD_NS,
    FakeSource,
    fake_runtime,
    look,
)


class Large:
    """100,000 old files that must not be opened."""

    uri = "large"
    num_files = 100_000

    def list(self):
        for start in range(0, self.num_files, 10_000):
            numbers = range(start, start + 10_000)
            paths, nothing = [f"{n // 1000}/file {n}.wav" for n in numbers], [None] * 10_000
            yield Listing(paths, [1000] * 10_000, [OLD_NS] * 10_000, [0] * 10_000, nothing, nothing)

    def open_digested(self, path, stamp):
        raise AssertionError(path)


def large_catalog(source):
    """The catalog that a first scan would give, made without reading."""
    stamps = [{name: getattr(chunk, name) for name in STAMP_SCHEMA} for chunk in source.list()]
    listing = pl.concat([pl.DataFrame(chunk, schema=STAMP_SCHEMA) for chunk in stamps]).sort("path")
    recordings = listing.with_columns(
        key=pl.lit("k"),
        sha256=pl.col("path").hash().cast(pl.String).str.pad_end(64, "0"),
        container=pl.lit("WAV"),
        subtype=pl.lit("PCM_16"),
        num_frames=pl.lit(1000, dtype=pl.Int64),
        sample_rate_hz=pl.lit(10, dtype=pl.Int64),
        num_channels=pl.lit(1, dtype=pl.Int64),
        bits_per_sample=pl.lit(16, dtype=pl.Int64),
    )
    return Catalog(recordings, look(FakeSource()).rejected, "1")


@pytest.mark.medium
def test_a_hundred_thousand_unchanged_files_take_about_a_second():
    source = Large()
    metadata = pl.DataFrame(
        {"path": [path for chunk in source.list() for path in chunk.path], "n": range(Large.num_files)}
    )
    previous = large_catalog(source)
    start = time.process_time()
    result = scan(source, previous, AT_ONCE, metadata, fake_runtime())
    assert result.num_reused == Large.num_files
    assert time.process_time() - start < 4  # about 1 s on an idle machine; the rest is a margin for a busy one
