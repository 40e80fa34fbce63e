"""Schedules follow the YAML; a changed YAML file is loaded without a click."""

import contextlib
import shutil
import threading

import dagster as dg
import pytest

from headrace.config.dataset import load_config
from headrace.config.folder import find_configs
from headrace.errors import ConfigError
from headrace_dagster.assets.maintenance import gc_job
from headrace_dagster.assets.verification import verify_job
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import WorkersResource
from headrace_dagster.sensors.definitions_changes import definitions_changes_sensor
from headrace_dagster.sensors.loaded import DatasetFolder
from headrace_dagster.sensors.schedules import dataset_schedules
from tests.support.projects import Graph, Project

RESOURCES = {"headrace_storage": StorageResource(), "headrace_workers": WorkersResource()}


@pytest.fixture
def project(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(4)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 2, "partitions": {"train": 1}})
    return project


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


def test_gc_keeps_what_readers_see(project):
    graph = Graph(project)
    graph.build()
    before = project.files()
    assert run(gc_job(project.dataset())).success
    assert project.files() == before


def tick(sensor: dg.SensorDefinition):
    return sensor(dg.build_sensor_context())


def test_unchanged_yaml_files_are_left_alone(project):
    sensor = watching(project)
    assert (sensor.name, sensor.default_status) == ("headrace_definitions_changes", dg.DefaultSensorStatus.RUNNING)
    assert "no change" in tick(sensor).skip_message


def test_a_changed_yaml_file_makes_the_code_server_load_it(project, monkeypatch):
    asked = threading.Event()

    class Server:
        def reload_code(self, timeout):
            asked.set()

    monkeypatch.setattr("headrace_dagster.sensors.definitions_changes.code_server", Server)
    sensor = watching(project)
    project.write_yaml(loader={"num_workers": 1})
    assert "loading" in tick(sensor).skip_message
    assert asked.wait(60)


def watching(project):
    """The sensor, as it is after the files of now were loaded."""
    configs = find_configs(project.datasets, project.datasets).configs
    return definitions_changes_sensor(DatasetFolder(project.datasets, project.datasets), configs)


def test_an_invalid_yaml_file_is_not_loaded_fails_one_tick_and_is_reported_until_it_is_corrected(project, monkeypatch):
    monkeypatch.setattr("headrace_dagster.sensors.definitions_changes.code_server", lambda: pytest.fail("asked"))
    sensor = watching(project)
    project.write_yaml(loader={"num_wrkers": 1})
    with pytest.raises(dg.Failure, match="num_workers") as raised:
        tick(sensor)
    assert not raised.value.allow_retries
    assert "num_workers" in tick(sensor).skip_message
    project.write_yaml(loader={"num_workers": 0})
    assert "no change" in tick(sensor).skip_message


def test_an_invalid_yaml_file_is_reported_once_to_the_recipients_of_the_file_that_was_loaded(project, monkeypatch):
    sent = []
    monkeypatch.setattr(
        "headrace_dagster.sensors.definitions_changes.send",
        lambda alert, recipients, _: sent.append((alert.dataset, alert.title, alert.text, recipients.email_to)),
    )
    project.write_yaml(alerts={"email_to": ["ada@example.org"]})
    sensor = watching(project)
    tick(sensor)
    assert sent == []
    project.write_yaml(loader={"num_wrkers": 1})
    (project.datasets / "other.yaml").write_text("source: {uri: x")
    for _ in range(2):
        with contextlib.suppress(dg.Failure):
            tick(sensor)
    assert [(name, title, to) for name, title, _, to in sent] == [
        ("other", "not loaded: other.yaml is invalid", ()),
        ("tones", "not loaded: tones.yaml is invalid", ("ada@example.org",)),
    ]
    assert "num_workers" in sent[1][2]
    project.write_yaml(loader={"num_werkers": 1})
    with contextlib.suppress(dg.Failure):
        tick(sensor)
    assert [name for name, *_ in sent] == ["other", "tones", "tones"]


def test_an_invalid_file_does_not_keep_others_from_being_loaded(project):
    sensor = watching(project)
    other, third = project.datasets / "other.yaml", project.datasets / "third.yaml"
    other.write_text("source: {uri: x")
    with pytest.raises(dg.Failure, match=r"other\.yaml: not valid YAML"):
        tick(sensor)
    third.write_text("source: {uri: x}\noutput: {uri: y}\n")
    assert "press Reload" in tick(sensor).skip_message
    loaded = watching(project)
    with pytest.raises(dg.Failure, match=r"other\.yaml: not valid YAML"):
        tick(loaded)
    third.unlink()
    assert "press Reload" in tick(loaded).skip_message


def test_a_missing_folder_of_data_sets_is_named(project):
    sensor = watching(project)
    project.datasets.rename(project.folder / "elsewhere")
    with pytest.raises(dg.Failure, match="no such folder of data sets"):
        tick(sensor)


def test_without_a_reloadable_code_server_a_person_is_asked(project):
    sensor = watching(project)
    project.write_yaml(loader={"num_workers": 1})
    assert "press Reload" in tick(sensor).skip_message
