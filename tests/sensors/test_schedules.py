"""Schedules follow the YAML; a changed YAML file is loaded without a click."""

import shutil

import dagster as dg
import pytest

from headrace.config.dataset import load_config
from headrace.errors import ConfigError
from headrace_dagster.assets.maintenance import gc_job
from headrace_dagster.assets.verification import verify_job
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import WorkersResource
from headrace_dagster.sensors.schedules import dataset_schedules
from tests.support.projects import Graph

pytestmark = pytest.mark.medium

RESOURCES = {"headrace_storage": StorageResource(), "headrace_workers": WorkersResource()}


def run(job: dg.JobDefinition, instance: dg.DagsterInstance | None = None) -> dg.ExecuteInProcessResult:
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return job.execute_in_process(resources=RESOURCES, raise_on_error=False, run_config=quiet, instance=instance)


def test_schedules_follow_the_yaml(project):
    project.write_yaml(schedules={"time_zone": "Europe/Berlin", "verify": {"cron": "30 1 * * 1", "enabled": False}})
    found = {schedule.name: schedule for schedule in dataset_schedules(project.dataset())}
    assert {name: schedule.cron_schedule for name, schedule in found.items()} == {
        "tones_refresh": "0 3 * * *",
        "tones_verify": "30 1 * * 1",
        "tones_gc": "0 6 * * 0",
        "tones_history": "0 5 * * *",
    }
    assert {schedule.execution_timezone for schedule in found.values()} == {"Europe/Berlin"}
    running = {name for name, one in found.items() if one.default_status == dg.DefaultScheduleStatus.RUNNING}
    assert running == {"tones_refresh", "tones_history"}


@pytest.mark.parametrize(
    "schedules",
    [
        {"time_zone": "Mars/Crater"},
        {"refresh": {"cron": "nightly"}},
        {"gc": {"keep": 0}},
        {"history": {"days": 0}},
        {"verify": {"fraction": "8/7"}},
        {"verify": {"fraction": 0}},
        {"verify": {"fraction": "weekly"}},
    ],
)
def test_invalid_schedules_are_named_by_key(project, schedules):
    project.write_yaml(schedules=schedules)
    with pytest.raises(ConfigError, match="schedules"):
        load_config(project.datasets / "tones.yaml")


def test_verify_reads_everything_and_names_a_damaged_shard(project):
    Graph(project).build()
    assert run(verify_job(project.dataset())).success
    shard = next((project.output / "audio").glob("*.tar"))
    shard.chmod(0o644)
    content = bytearray(shard.read_bytes())
    content[600] ^= 1
    shard.write_bytes(bytes(content))
    result = run(verify_job(project.dataset()))
    assert not result.success
    message = next(e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure)
    assert shard.name in message


def test_verify_takes_the_next_part_in_each_run(project):
    project.write_yaml(schedules={"verify": {"fraction": "1/2"}})
    Graph(project).build()
    reads = []
    for _ in range(2):
        result = run(verify_job(project.dataset()))
        (output,) = (each for each in result.all_events if each.is_successful_output)
        reads.append(output.step_output_data.metadata["shards"].value)
    assert sum(reads) == len(project.sizes())
    assert "shards were verified since" in output.step_output_data.metadata["verified"].value


def test_verify_passes_before_the_first_snapshot_and_fails_when_all_are_gone(project):
    assert run(verify_job(project.dataset())).success
    graph = Graph(project)
    graph.build()
    shutil.rmtree(project.output)
    assert not run(verify_job(project.dataset()), graph.instance).success


def test_verify_misses_a_whole_folder_that_was_built(project):
    project.write_yaml(views={"long": {"where": "duration_seconds > 0"}})
    graph = Graph(project)
    graph.build()
    for partition in graph.partitions:
        assert graph.run(graph.keys.columns("metadata"), partition).success
    for key in (graph.keys.columns_index("metadata"), graph.keys.view("long")):
        assert graph.run(key).success
    assert run(verify_job(project.dataset()), graph.instance).success
    for folder in ("views", "columns"):
        shutil.rmtree(project.output / folder)
    result = run(verify_job(project.dataset()), graph.instance)
    message = next(e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure)
    for folder in ("views/long", "columns/metadata"):
        assert f"{project.output / folder}: no snapshot is there" in message


def test_gc_keeps_what_readers_see(project):
    graph = Graph(project)
    graph.build()
    before = project.files()
    assert run(gc_job(project.dataset())).success
    assert project.files() == before
