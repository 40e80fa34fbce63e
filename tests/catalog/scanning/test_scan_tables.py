"""The tables of a scan are divided by path; the rows of a path are in one part, in order."""

from contextlib import closing

import polars as pl
import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.rows.schemas import FACT_SCHEMA, LISTING_SCHEMA, STAMP_SCHEMA
from headrace.catalog.scanning.scan_tables import EarlierScan, ScanTables

PATHS = [f"{number:03d}.wav" for number in range(50)]


class Table:
    """A metadata table of these rows; those that are left out come beside them."""

    has_folders = False

    def __init__(self, rows=(), left_out=()):
        self.schema = pl.Schema({"path": pl.String})
        self.rows, self.left_out = rows, left_out

    def batches(self, _are_files):
        yield tuple(pl.DataFrame({"path": list(paths)}, schema=self.schema) for paths in (self.rows, self.left_out))


def table(schema, paths, **values):
    rows = [{**dict.fromkeys(schema), "num_bytes": 1, "mtime_ns": 1, "ctime_ns": 1, "path": path} for path in paths]
    return pl.DataFrame(rows, schema=schema).with_columns(**values)


def tables_of(rows=(), left_out=(), most_bytes=200, **asked):
    return closing(ScanTables(CatalogSettings(**asked), Table(rows, left_out), "2", most_bytes))


def test_every_file_is_in_one_part():
    with tables_of() as tables:
        tables.add_listing(table(LISTING_SCHEMA, PATHS))
        tables.read(None, None)
        assert len(tables.parts) > 1
        assert sorted(path for part in tables.parts for path in tables.listed(part)["path"]) == PATHS
        assert sorted(path for paths in tables.all_paths() for path in paths) == PATHS


@pytest.mark.medium
def test_files_are_opened_in_the_order_of_the_listing():
    """Not in that of their hashes, by which tables are divided: files of one container follow each other."""
    paths = [f"{number:03d}.wav" for number in range(300)]
    listed = [*reversed(paths[:150]), *paths[150:]]
    with tables_of() as tables:
        for some in (listed[:7], listed[7:]):
            tables.add_listing(table(LISTING_SCHEMA, some))
        tables.read(None, None)
        for part in tables.parts:
            listing = tables.listed(part)
            tables.open_later(listing.select(*STAMP_SCHEMA).filter(pl.col("path") != "007.wav").reverse(), listing)
        opened = [path for files in tables.files_to_open() for path in files["path"]]
        assert opened == [path for path in listed if path != "007.wav"]
        assert tables.to_open.is_divided
        assert tables.to_open.num_rows == len(opened)


def test_files_that_only_rows_left_out_name_are_left_out():
    with tables_of(PATHS[:10], PATHS[8:20], where="true") as tables:
        tables.add_listing(table(LISTING_SCHEMA, PATHS))
        tables.read(None, None)
        listed = sorted(path for part in tables.parts for path in tables.listed(part)["path"])
        assert listed == [*PATHS[:10], *PATHS[20:]]
        assert sum(map(len, tables.left_out)) == 10


def test_facts_of_the_last_scan_are_those_that_are_still_valid():
    lossy = table(FACT_SCHEMA, PATHS[:2])
    exact = table(FACT_SCHEMA, PATHS[2:4], bits_per_sample=pl.lit(16, dtype=pl.Int64))
    nothing = pl.DataFrame()
    for version, paths in (("1", PATHS[2:4]), ("2", PATHS[:4])):
        with tables_of() as tables:
            tables.read(EarlierScan(lambda: [lossy, exact, exact], nothing, version), None)
            found = pl.concat([tables.earlier_facts(part)[0] for part in tables.parts])
            assert sorted(found["path"]) == paths


def test_only_rows_with_several_files_look_for_files_in_other_parts():
    with tables_of() as plain, tables_of(fields={"mix": "path", "voice": "v"}, samples="rows") as fields:
        assert (plain.lookup, plain.is_of_rows) == (None, False)
        assert fields.lookup is not None
        assert fields.is_of_rows
