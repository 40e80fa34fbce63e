"""Tests of `headrace_dagster.build_command.instance`."""

import dagster as dg
import pytest

from headrace_dagster.build_command.instance import open_instance
from tests.support.six_tones import run


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
