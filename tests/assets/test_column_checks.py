"""The checks of a set of columns: those of a table only warn, and all pass while an optional table is not there."""

import dagster as dg
import pytest

from headrace.config.content import METADATA_SET
from headrace_dagster.assets.column_checks import (
    COMPLETE,
    FIT,
    MATCHED,
    READ,
    column_check_specs,
    tables_spec,
)

KEY = dg.AssetKey(["a", "captions_columns_index"])


@pytest.mark.parametrize(("name", "checks"), [(METADATA_SET, [FIT]), ("captions", [FIT, MATCHED, COMPLETE])])
def test_a_set_that_comes_from_a_table_has_checks_of_the_table(name, checks):
    specs = column_check_specs(name, KEY)
    assert [spec.name for spec in specs] == checks
    assert all(spec.description and spec.asset_key == KEY for spec in specs)


def test_the_catalog_has_one_check_for_all_tables():
    assert (tables_spec(KEY).name, tables_spec(KEY).asset_key) == (READ, KEY)
