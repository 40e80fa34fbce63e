"""Tests of `headrace.upkeep.columns_export`."""

import polars as pl
import pytest

from headrace.assemble.column_sets import bring_columns_up_to_date
from headrace.errors import ConfigError
from headrace.upkeep.columns_export import export_columns
from tests.support.builds import twenty_clips
from tests.support.column_sets import described


@pytest.mark.medium
def test_a_users_column_keeps_its_name_in_an_export(tmp_path):
    project = described(twenty_clips(tmp_path), split=[1.5] * 20, key=["k"] * 20, tags=[["a"], None] * 10)
    project.asked = {}
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    target = tmp_path / "metadata.parquet"
    export_columns(project.output, "metadata", target)
    table = pl.read_parquet(target)
    assert {"fact.key", "fact.split", "shard", "key", "split", "tags"} < set(table.columns)
    assert table["split"].to_list() == [1.5] * 20
    assert set(table["tags"]) == {'["a"]', None}
    assert set(table["key"]) == {"k"}
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="folder: is a folder"):
        export_columns(project.output, "metadata", tmp_path / "folder")
