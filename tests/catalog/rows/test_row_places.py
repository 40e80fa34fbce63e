"""Names of the rows of corpora and of several files, and the faults of rows that belong to none."""

import polars as pl
import pytest

from headrace.catalog.rows.row_columns import EXPLICIT_KEY, PLACE, SPAN_COLUMNS, SPAN_FAULT, row_said
from headrace.catalog.rows.row_places import is_unjoined, with_places
from headrace.catalog.tables.row_origins import RowOrigin, TableFileName


def table(path, key):
    spans = {name: pl.Series([None], dtype=pl.String) for name in SPAN_COLUMNS}
    return pl.DataFrame({"path": [path], EXPLICIT_KEY: [key], PLACE: [None], "\0row": [7], **spans})


def origin(name, file=None, **more):
    return RowOrigin(file, pl.Series([name], dtype=pl.String if file is None else pl.Int64), **more)


M, FAULT = TableFileName("x/m.csv"), "belongs to no row"


@pytest.mark.parametrize(
    ("path", "key", "origin", "name", "fault"),
    [
        ("a", "u", None, "row 7 of the metadata table", None),
        ("a", "u", origin(3, M), "row 7 of the metadata table", None),
        ("a", "u", origin(3, M, unit="line", is_one_of_several=True), "line 3 of x/m.csv", None),
        ("a", "u", origin("line 2 of n.json"), "line 2 of n.json", None),
        ("a", "u", origin(None), "the row of a (key 'u')", None),
        ("a", None, origin(None), "the row of a", None),
        (None, "u", origin(None), "the row with the key 'u'", None),
        (None, "u", origin("line 3 of m", faults=pl.Series([FAULT])), "line 3 of m", FAULT),
    ],
)
def test_a_row_has_the_name_by_which_a_user_finds_it(path, key, origin, name, fault):
    found = with_places(table(path, key), origin)
    assert found.select(row_said("is here")).item() == f"{name} is here"
    assert found[SPAN_FAULT].item() == fault
    assert bool(found.select(is_unjoined()).item()) == (fault is not None)
