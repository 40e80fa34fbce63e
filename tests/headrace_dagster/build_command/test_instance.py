"""Tests of `headrace_dagster.build_command.instance`."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import dagster as dg
import pytest

from headrace.errors import ConfigError
from headrace_dagster.build_command import instance as of_builds
from headrace_dagster.build_command.instance import open_instance
from tests.support.six_tones import run


@pytest.mark.parametrize("before", [None, "", "of_another"])
def test_after_a_build_the_process_has_the_home_that_it_had(tmp_path, monkeypatch, before):
    """A process may build the data sets of several homes, one after the other."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    if (before := before and str(tmp_path / before)) is not None:
        monkeypatch.setenv("DAGSTER_HOME", before)
    for name in ("first", "second"):
        with open_instance(tmp_path / name) as instance:
            assert instance.root_directory == os.environ["DAGSTER_HOME"] == (before or str(tmp_path / name))
        assert os.environ.get("DAGSTER_HOME") == before


def test_a_home_that_cannot_be_opened_leaves_the_variable_as_it_was(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (tmp_path / "dagster.yaml").write_text("storage: [")
    with pytest.raises(ConfigError, match="cannot be used as Dagster's home"), open_instance(tmp_path):
        pass
    assert "DAGSTER_HOME" not in os.environ


def test_builds_that_begin_together_make_the_databases_of_a_home_one_after_the_other(tmp_path, monkeypatch):
    """Dagster looks for tables and then creates them: of two builds at once one would find them created."""
    inside, quiet = [], of_builds.quiet_instance

    def opened(home):
        assert not inside
        inside.append(home)
        time.sleep(0.05)  # longer than another build takes to come
        inside.pop()
        return quiet(home)

    def build(_):
        with open_instance(tmp_path / "unused") as instance:
            return instance.get_runs()

    monkeypatch.setattr(of_builds, "quiet_instance", opened)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(build, range(3))) == [[], [], []]


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
