"""Parquet tables are read in batches with the types of the whole table."""

import polars as pl
import pytest

from headrace.catalog.tables.metadata_files import open_metadata, read_metadata
from headrace.errors import ConfigError


def test_a_parquet_table_in_batches_has_the_types_of_the_whole_table(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.catalog.tables.parquet_tables.BATCH_ROWS", 3)
    table = pl.DataFrame({"path": range(8), "n": range(8), "none": [None] * 8, "lists": [[]] * 8})
    table.write_parquet(tmp_path / "table.parquet")
    opened = open_metadata(tmp_path / "table.parquet")
    whole = read_metadata(tmp_path / "table.parquet")
    batches = list(opened.batches())
    assert [batch.height for batch in batches] == [3, 3, 2]
    assert pl.concat(batches).equals(whole)
    assert opened.schema == whole.schema == pl.concat(batches).schema


@pytest.mark.parametrize("content", [b"", b"no parquet"])
def test_a_damaged_parquet_table_is_an_error_by_name(tmp_path, content):
    (tmp_path / "table.parquet").write_bytes(content)
    with pytest.raises(ConfigError, match=r"table\.parquet: not a readable Parquet file"):
        open_metadata(tmp_path / "table.parquet")


def test_a_parquet_file_of_a_type_that_cannot_be_read_is_an_error_that_names_it(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    wide = arrow.array([None], arrow.decimal256(60, 2))
    parquet.write_table(arrow.table({"path": ["a.wav"], "wide": wide}), tmp_path / "m.parquet")
    with pytest.raises(ConfigError, match=r"m\.parquet: not a readable Parquet file"):
        open_metadata(tmp_path / "m.parquet")


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"path": ["a"], "chords": [[1, 2]]}, schema_overrides={"chords": pl.List(pl.Int16)})
    frame.write_parquet(tmp_path / "m.parquet")
    assert read_metadata(tmp_path / "m.parquet").equals(frame)
