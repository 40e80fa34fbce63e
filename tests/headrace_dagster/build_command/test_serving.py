"""The definitions that `headrace ui` serves are those of one file."""

import dagster as dg
import pytest

from headrace_dagster.build_command.serving import FILE_VARIABLE, ROOT_VARIABLE, served_definitions
from headrace_dagster.sensors.loaded import DatasetFolder

pytestmark = pytest.mark.medium


def test_only_the_named_data_set_is_served_and_its_sensors_run(project, monkeypatch):
    (project.datasets / "other.yaml").write_text("invalid: true\n")
    monkeypatch.setenv(FILE_VARIABLE, str(project.datasets / "tones.yaml"))
    monkeypatch.setenv(ROOT_VARIABLE, str(project.folder))
    found = served_definitions(None)
    repository = found.get_repository_def()
    assert {key.path[0] for key in repository.asset_graph.materializable_asset_keys} == {"tones"}
    sensors = {sensor.name: sensor.default_status for sensor in repository.sensor_defs}
    assert sensors["tones_source_changes"] is dg.DefaultSensorStatus.RUNNING
    tick = repository.get_sensor_def("headrace_definitions_changes")
    with dg.DagsterInstance.ephemeral() as instance:
        result = tick.evaluate_tick(dg.build_sensor_context(instance=instance))
    assert "no change" in result.skip_message


def test_a_folder_of_some_names_knows_no_other_files(project):
    (project.datasets / "other.yaml").write_text("invalid: true\n")
    configs, invalid = DatasetFolder(project.datasets, project.folder, ("tones",)).configs_now()
    assert (list(configs), invalid) == (["tones"], {})
