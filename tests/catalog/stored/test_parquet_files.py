"""Tests of `headrace.catalog.stored.parquet_files`."""

import polars as pl
import pytest

from headrace.catalog.rows.schemas import FILE_SCHEMA
from headrace.catalog.stored.parquet_files import parquet_bytes, parsed_table
from headrace.errors import FormatError


def test_a_parquet_file_of_another_kind_or_version_is_refused():
    table = pl.DataFrame({"path": ["a"]})
    with pytest.raises(FormatError, match=r"here: columns \['num_bytes'"):
        parsed_table(parquet_bytes(table, "1"), "here", FILE_SCHEMA)
    blob = parquet_bytes(table, "1").replace(b"headrace.format", b"headrace.formax")
    with pytest.raises(FormatError, match="expected format 3, found no version"):
        parsed_table(blob, "here", FILE_SCHEMA)
