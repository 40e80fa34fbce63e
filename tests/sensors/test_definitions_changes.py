"""A changed YAML file is loaded without a click."""

import contextlib
import threading

import dagster as dg
import pytest

from headrace.config.folder import find_configs
from headrace_dagster.sensors.definitions_changes import definitions_changes_sensor
from headrace_dagster.sensors.loaded import DatasetFolder


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
