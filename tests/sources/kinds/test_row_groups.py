"""Row groups as the footer of a Parquet file has them."""

import io

import polars as pl
import pytest

from headrace.sources.kinds.row_groups import row_groups


def parquet(num_rows, to_a_group, num_columns=2):
    rows = {f"column {number}": [b"x" * 100] * num_rows for number in range(num_columns)}
    file = io.BytesIO()
    pl.DataFrame(rows, schema=dict.fromkeys(rows, pl.Binary)).write_parquet(file, row_group_size=to_a_group)
    return file


@pytest.mark.parametrize(("num_rows", "to_a_group", "expected"), [(7, 3, [3, 3, 1]), (0, 3, []), (40, 2, [2] * 20)])
def test_each_row_group_has_its_rows_and_bytes(num_rows, to_a_group, expected):
    found = row_groups(parquet(num_rows, to_a_group))
    assert [group.num_rows for group in found if group.num_rows] == expected
    assert all(group.num_bytes > 100 for group in found if group.num_rows)


def test_a_group_has_the_bytes_of_all_its_columns():
    few, many = (row_groups(parquet(5, 5, num_columns))[0].num_bytes for num_columns in (1, 20))
    assert many >= 19 * few


def test_row_groups_of_another_writer():
    """With key-value metadata, lists, and types that polars does not write."""
    pa = pytest.importorskip("pyarrow")
    parquet_of_arrow = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": list(range(10)), "b": [[1.5]] * 10, "c": [True] * 10})
    file = io.BytesIO()
    parquet_of_arrow.write_table(table.replace_schema_metadata({"key": "x" * 1000}), file, row_group_size=4)
    meta = parquet_of_arrow.ParquetFile(file).metadata
    expected = [(meta.row_group(at).num_rows, meta.row_group(at).total_byte_size) for at in range(3)]
    assert row_groups(file) == expected


def footer(data):
    return data + len(data).to_bytes(4, "little") + b"PAR1"


DAMAGED = {
    "length of bytes": b"\x18" + b"\xff" * 9 + b"\x01",
    "endless number": b"\x15" + b"\xff" * 10_000,
    "groups with structs": b"\x49\x1c\x2c\0\x1c\0\0\0",
    "groups with negative numbers": b"\x49\x1c\x26\x01\x16\x02\0\0",
    "groups with truth": b"\x49\x1c\x21\x11\0\0",
}


def test_a_group_of_these_forms_has_numbers():
    assert row_groups(io.BytesIO(footer(b"\x49\x1c\x26\x04\x16\x02\0\0"))) == [(1, 2)]


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1" * 5, b"\x1c\xff\x04\0\0\0PAR1", b"\x15\x04\0\x03\0\0\0PAR1", *map(footer, DAMAGED.values())],
)
def test_a_damaged_footer_is_an_os_error(content):
    with pytest.raises(OSError, match="Parquet"):
        row_groups(io.BytesIO(content))
