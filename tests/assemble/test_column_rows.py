"""A table of columns that is divided in parts, through temporary files, gives what Python's dictionaries give."""

import io
from unittest import mock

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.assemble.column_tables import import_table, imported_rows
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.metadata_files import TableInMemory
from headrace.config.dataset import DatasetConfig
from headrace.errors import ConfigError
from headrace.stores.storage import open_storage
from tests.support.catalog_fakes import OLD_NS, FakeSource, fake_runtime

FILES = [*(f"{folder}/{name}.wav" for folder in "ab" for name in "uvwxyz"), "a/\u00e9.wav", "b/o\u0301.wav"]
SPELLINGS = {"./a/u.wav": "a/u.wav", "a/e\u0301.wav": "a/\u00e9.wav", "b/\u00f3.wav": "b/o\u0301.wav"}
NAMES = [*FILES, *SPELLINGS, "gone.wav", "\u00fc.wav", "", None]
ROWS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 1), st.sampled_from([None, 1 << 40])), max_size=14)


@pytest.fixture(scope="module")
def catalog_of_files():
    source = FakeSource()
    for number, path in enumerate(FILES):
        source.put(path, b"x" * (40 + number), OLD_NS)
    config = DatasetConfig(
        name="parts",
        source={"uri": "fake", "settle_seconds": 0},
        splits={"train": 0.7, "test": 0.3},
        shards={"partitions": {"train": 5}},
        columns=[{"name": "captions", "table": "captions.csv"}],
        output={"uri": "memory://"},
    )
    output = open_storage("memory://")
    update_catalog(config, source, None, output, fake_runtime())
    return config, output


def divided(config, output, table, part_bytes):
    """Rows by partition, listed rows, and numbers; or the message of the error."""
    entry = config.columns[0]
    with mock.patch("headrace.catalog.tables.metadata_files.BATCH_ROWS", 3):
        try:
            stamp = (part_bytes, table.hash_rows().to_list())
            opened = TableInMemory(table)
            header = import_table(existing_catalog(output), config, entry, stamp, lambda: opened, part_bytes)
        except ConfigError as error:
            return str(error)
    parts = {name: imported_rows(output, header, name) for name in header.partitions}
    listed = pl.read_parquet(io.BytesIO(output.read(header.unmatched))).rows() if header.unmatched else []
    numbers = (header.num_rows, header.num_merged, header.num_unmatched, header.num_without)
    return parts, listed, numbers, header.rows


def expected(rows, known):
    """Result of `divided`, computed with dictionaries: partition → path → row, listed rows, and numbers."""
    found, listed, merged = {}, [], 0
    for number, (name, n, wide) in enumerate(rows, 1):
        path = SPELLINGS.get(name, name)
        if not path:
            listed.append((number, "", "bad_name", f"row {number} of the table has no path"))
        elif path in found:
            assert found[path] == (n, wide)
            merged += 1
        else:
            found[path] = (n, wide)
            if not any(path in paths for paths in known.values()):
                listed.append(
                    (number, path, "no_sample", f"row {number} of the table names no recording of the catalog")
                )
    parts = {name: {path: found[path] for path in paths if path in found} for name, paths in known.items()}
    without = sum(map(len, known.values())) - sum(map(len, parts.values()))
    return parts, listed, (len(rows), merged, len(listed), without)


@pytest.mark.medium
@settings(deadline=None, max_examples=30)
@example([("a/u.wav", 0, None), ("b/u.wav", 1, None), ("./a/u.wav", 0, None)], 1)
@example([(name, 0, None) for name in FILES] + [(name, 1, None) for name in FILES[:7]], 1)
@given(rows=ROWS, part_bytes=st.sampled_from([1, 300]))
def test_any_table_is_divided_as_by_dictionaries(catalog_of_files, rows, part_bytes):
    config, output = catalog_of_files
    schema = {"path": pl.String, "n": pl.Int64, "wide": pl.UInt64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    in_parts, whole = divided(config, output, table, part_bytes), divided(config, output, table, 1 << 30)
    if isinstance(in_parts, str):
        values = {}
        for name, *others in rows:
            values.setdefault(SPELLINGS.get(name, name) or "", set()).add(tuple(others))
        assert in_parts == whole
        differing = sorted(name for name, found in values.items() if name and len(found) > 1)
        assert differing
        assert [name for name in differing[:5] if repr(name) not in in_parts] == []
        assert (f"and {len(differing) - 5} more" in in_parts) == (len(differing) > 5)
        return
    parts, listed, numbers, digests = in_parts
    assert digests == whole[3]  # the same bytes
    catalog = existing_catalog(output)
    known = dict.fromkeys(catalog.header.partitions, ()) | {
        name: found["path"].to_list() for name, found in catalog.partitions(["path"])
    }
    found = {name: {path: (n, wide) for path, n, wide in part.iter_rows()} for name, part in parts.items()}
    assert all(part["path"].is_sorted() and part.schema["wide"] == pl.Int64 for part in parts.values())
    assert (found, listed, numbers) == expected(rows, known)
