"""Automation of data sets: two sensors and the schedules of each, and the sensors that all of them share."""

from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.factory import build_automation, dataset_automation
from headrace_dagster.sensors.loaded import DatasetFolder


def dataset(name):
    return ProjectDataset.named(DatasetConfig(name=name, source={"uri": "a"}, output={"uri": f"out/{name}"}))


def names(definitions):
    return sorted(sensor.name for sensor in definitions.sensors)


def test_each_data_set_has_its_own_sensors_and_schedules():
    found = dataset_automation(dataset("birds"), StorageResource())
    assert names(found) == ["birds_source_changes", "birds_stale_partitions"]
    assert sorted(schedule.name for schedule in found.schedules) == [
        "birds_gc",
        "birds_history",
        "birds_refresh",
        "birds_verify",
    ]


def test_alerts_and_changed_files_are_watched_once_for_all(tmp_path):
    both = [dataset("birds"), dataset("frogs")]
    own = {f"{one.name}_{kind}" for one in both for kind in ("source_changes", "stale_partitions")}
    without = set(names(build_automation(both, StorageResource())))
    assert own < without
    watched = set(names(build_automation(both, StorageResource(), DatasetFolder(tmp_path, tmp_path))))
    assert watched - without == {"headrace_definitions_changes"}
    assert len(without - own) == 1
