"""Tests of `headrace_dagster.build_command.instance`."""

import os

import dagster as dg
import pytest

from headrace_dagster.build_command.instance import open_instance
from tests.support.six_tones import run


@pytest.mark.parametrize("before", ["", "of_another"])
def test_after_a_build_the_process_has_the_home_that_it_had(tmp_path, monkeypatch, before):
    """A process may build the data sets of several homes, one after the other."""
    monkeypatch.setenv("DAGSTER_HOME", before and str(tmp_path / before))
    for name in ("first", "second"):
        with open_instance(tmp_path / name) as instance:
            assert instance.root_directory == os.environ["DAGSTER_HOME"] == str(tmp_path / (before or name))
        assert os.environ["DAGSTER_HOME"] == (before and str(tmp_path / before))


@pytest.mark.slow
def test_the_instance_on_disk_shows_every_asset_and_has_telemetry_off(project, home):
    assert run(project) == 0
    assert run(project) == 0
    with open_instance(home) as instance:
        assert not instance.telemetry_enabled
        for key in ("catalog", "sizes_index", "loader_smoke_test", "dataset_report"):
            assert instance.get_latest_materialization_event(dg.AssetKey(["tones", key])), key
        partitions = instance.get_materialized_partitions(dg.AssetKey(["tones", "audio_shards"]))
    assert partitions == set(project.config().partitioning().partition_keys())
