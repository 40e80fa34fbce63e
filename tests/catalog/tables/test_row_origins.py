"""Names of files and of rows in messages."""

import polars as pl
import pytest

from headrace.catalog.tables.row_origins import RowOrigin, TableFileName, line_names

LINES = pl.Series([3, 7])


@pytest.mark.parametrize(
    ("shown", "folder", "stem"),
    [
        ("a/m.csv", "a", "m"),
        ("m.jsonl.gz", "", "m"),
        ("s3://b/x/m.tsv.ZST", "s3://b/x", "m"),
        ("a/m.v1.csv", "a", "m.v1"),
    ],
)
def test_a_file_has_a_folder_and_a_stem(shown, folder, stem):
    assert (TableFileName(shown).folder, TableFileName(shown).stem) == (folder, stem)


def test_lines_are_named_with_their_file():
    assert line_names(TableFileName("m.csv"), LINES, "line").to_list() == ["line 3 of m.csv", "line 7 of m.csv"]


def test_rows_are_named_where_their_number_in_the_table_does_not_find_them():
    file = TableFileName("m.csv")
    assert RowOrigin(file, LINES).names() is None
    assert RowOrigin(file, LINES, "line", is_one_of_several=True).names().to_list()[0] == "line 3 of m.csv"
    assert RowOrigin(None, pl.Series(["line 2 of n", None])).names().to_list() == ["line 2 of n", None]
