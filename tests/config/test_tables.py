"""A table of the YAML is a path, or a section that says how its file is read."""

import pytest

from headrace.config.tables import ColumnType, Quotes, TableConfig, TableFile, TableFormat, checked_table


def test_a_table_is_a_path_or_a_section_with_the_path():
    assert checked_table("a.csv") == TableFile(uri="a.csv")
    given = checked_table({"uri": "a.txt", "format": "tsv", "quotes": "none", "types": {"n": "int"}})
    assert (given.format, given.quotes, given.types) == (TableFormat.TSV, Quotes.NONE, {"n": ColumnType.INT})
    assert checked_table(given) is given


@pytest.mark.parametrize("value", ["", 3, None, ["a.csv"]])
def test_anything_else_is_no_table(value):
    with pytest.raises(ValueError, match="expected the path or URL of a table"):
        checked_table(value)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("given", [{"delimiter": ";"}, {"header": ["a"]}])
def test_delimiter_and_header_are_for_text_with_cells(kind, given):
    with pytest.raises(ValueError, match=f"{next(iter(given))} is for csv and tsv, but format is {kind}"):
        TableConfig(format=kind, **given)
    assert TableConfig(format="csv", **given)


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "\\"])
def test_a_delimiter_is_one_character_that_has_no_other_meaning(delimiter):
    with pytest.raises(ValueError, match="delimiter"):
        TableConfig(delimiter=delimiter)


def test_a_type_of_a_column_that_the_header_lacks_is_an_error():
    with pytest.raises(ValueError, match="header has no column 'c'; its columns are a, b"):
        TableConfig(header=["a", "b"], types={"c": "int"})
    assert TableConfig(types={"c": "int"}).types == {"c": "int"}
