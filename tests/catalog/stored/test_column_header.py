"""The header of an imported table names its parts; it is read back as it was written."""

import pytest

from headrace.catalog.stored.column_header import (
    ColumnTableHeader,
    TablePart,
    header_path,
    read_table_header,
    table_folder,
)
from headrace.errors import FormatError
from headrace.stores.storage import open_storage

PARTS = {
    f"train-000{number}": TablePart(f"catalog/columns/n/{number}", 10, f"sha {number}", 5, number) for number in (1, 2)
}
HEADER = ColumnTableHeader("inputs", "key", "id", {"n": "int"}, 10, 1, 2, "catalog/columns/n/unmatched", PARTS)


def test_a_header_is_read_back():
    output = open_storage("memory://")
    assert read_table_header(output, "n") is None
    output.write(header_path("n"), HEADER.to_bytes())
    assert read_table_header(output, "n") == HEADER
    assert header_path("n").startswith(table_folder("n"))


def test_sums_digests_and_files_are_those_of_its_parts():
    assert HEADER.num_without == 3
    assert HEADER.rows == {"train-0001": "sha 1", "train-0002": "sha 2"}
    assert list(HEADER.paths()) == ["catalog/columns/n/1", "catalog/columns/n/2", "catalog/columns/n/unmatched"]


@pytest.mark.parametrize(
    "blob", [b"", b"{}", HEADER.to_bytes()[:-9], HEADER.to_bytes().replace(b'"num_rows"', b'"rows"')]
)
def test_a_damaged_header_is_an_error_that_names_it(blob):
    output = open_storage("memory://")
    output.write(header_path("n"), blob)
    with pytest.raises(FormatError, match=header_path("n")):
        read_table_header(output, "n")
