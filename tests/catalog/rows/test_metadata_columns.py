import datetime as dt
import json
import math
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.rows.metadata_columns import (
    check_types,
    metadata_columns,
    metadata_dicts,
    stored_names,
    user_name,
)
from headrace.catalog.rows.schemas import OWN_COLUMNS
from headrace.errors import ConfigError

names = st.lists(st.sampled_from(["metadata_", ""]), max_size=3).flatmap(
    lambda prefixes: st.sampled_from(["path", "sha256", "title", "metadata", "partition"]).map(
        lambda name: "".join(prefixes) + name
    )
)


@pytest.mark.medium
@given(st.lists(names, unique=True))
def test_stored_names_are_unique_and_map_back_to_the_users_names(users):
    stored = stored_names(users)
    assert not set(stored.values()) & OWN_COLUMNS
    assert len(set(stored.values())) == len(users)
    assert [user_name(stored[user]) for user in users] == users


def test_a_name_with_a_zero_character_is_rejected_because_columns_beside_it_have_such_names():
    with pytest.raises(ConfigError, match="zero character"):
        check_types(pl.DataFrame({"\0row": [1]}))


def test_the_reserved_provenance_column_is_rejected():
    with pytest.raises(ConfigError, match="headrace"):
        stored_names(["title", "headrace"])


def test_clashing_columns_are_returned_with_the_users_names():
    table = pl.DataFrame({"path": ["a"], "sha256": ["0"], "metadata_sha256": ["theirs"], "partition": ["train-0000"]})
    assert metadata_columns(table) == {"metadata_sha256": "sha256"}
    assert metadata_dicts(table) == [{"sha256": "theirs"}]


def test_values_are_converted_to_json_types():
    table = pl.DataFrame(
        {
            "a_float": [1.5, math.nan, math.inf],
            "b_list": [[1.0, math.nan], [], None],
            "c_date": [dt.date(2024, 5, 1), None, None],
            "d_time": [dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC), None, None],
            "e_span": [dt.timedelta(seconds=90), None, None],
            "f_struct": [{"y": 1.0, "x": dt.date(2024, 1, 1)}, {"y": math.inf, "x": None}, None],
            "g_enum": pl.Series(["x", None, "x"], dtype=pl.Enum(["x"])),
            "h_decimal": [Decimal("1.25"), None, None],
            "i_bool": [True, None, False],
            "j_dates": [[dt.date(2024, 5, 1), None], None, []],
            "k_array": pl.Series([[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int8, 2)),
            "l_none": [None, None, None],
        }
    )
    first, second, third = metadata_dicts(table)
    assert first == {
        "a_float": 1.5,
        "b_list": [1.0, None],
        "c_date": "2024-05-01",
        "d_time": "2024-05-01T12:30:00+00:00",
        "e_span": 90.0,
        "f_struct": {"x": "2024-01-01", "y": 1.0},
        "g_enum": "x",
        "h_decimal": 1.25,
        "i_bool": True,
        "j_dates": ["2024-05-01", None],
        "k_array": [1, 2],
        "l_none": None,
    }
    assert (second["a_float"], third["a_float"], second["f_struct"]) == (None, None, {"x": None, "y": None})
    json.dumps([first, second, third], allow_nan=False)


def test_the_order_of_columns_does_not_matter():
    table = pl.DataFrame({"b": [1], "a": [2]})
    assert json.dumps(metadata_dicts(table)) == json.dumps(metadata_dicts(table.select("a", "b")))


def test_without_metadata_every_row_has_no_columns():
    assert metadata_dicts(pl.DataFrame({"path": ["a", "b"]})) == [{}, {}]


@pytest.mark.parametrize(
    "values", [[b"bytes"], [[b"bytes"]], [{"x": b"bytes"}], pl.Series([object()], dtype=pl.Object)]
)
def test_the_error_about_a_column_without_a_json_form_names_it(values):
    with pytest.raises(ConfigError, match="'cover'"):
        check_types(pl.DataFrame({"path": ["a"], "cover": values}))
