"""A new data set gets a YAML file that loads."""

import pytest
import yaml

from headrace_dagster import (
    Dataset,
    StorageResource,
)
from headrace_dagster.scaffolding import data_set_name
from tests.support.component import keys_of, loaded, names_of

pytestmark = pytest.mark.medium


def test_a_scaffolded_data_set_loads_under_the_name_of_its_folder(sandbox):
    path = sandbox.scaffold_component(Dataset, "birds")
    assert yaml.safe_load((path / "defs.yaml").read_text())["attributes"] == {
        "source": {"uri": "data/birds/recordings"},
        "output": {"uri": "data/birds/output"},
    }
    with loaded(sandbox) as definitions:
        assert "birds/catalog" in keys_of(definitions)
        assert names_of(definitions) == ["birds_source_changes", "birds_stale_partitions", "headrace_alerts"]
        schedules = {schedule.name for schedule in definitions.schedules}
        assert schedules == {"birds_refresh", "birds_verify", "birds_gc", "birds_history"}
        root = str(sandbox.project_root)
        assert definitions.resources["headrace_storage"] == StorageResource(root=root)


def test_scaffolding_in_python_loads_as_well(sandbox):
    path = sandbox.scaffold_component(Dataset, "birds", scaffold_format="python", scaffold_params={"source": "a"})
    assert 'source={"uri": "a"}' in (path / "component.py").read_text()
    with loaded(sandbox) as definitions:
        assert "birds/audio_shards" in keys_of(definitions)


@pytest.mark.parametrize(
    ("folder", "name"), [("birds", "birds"), ("my-birds.v2", "my_birds_v2"), ("2024", "data_2024"), ("-", "data")]
)
def test_a_folder_whose_name_is_not_valid_gets_a_name_in_the_yaml(sandbox, folder, name):
    assert data_set_name(folder) == name
    path = sandbox.scaffold_component(Dataset, f"audio/{folder}")
    assert yaml.safe_load((path / "defs.yaml").read_text())["attributes"].get("name", folder) == name
    with loaded(sandbox) as definitions:
        assert f"{name}/catalog" in keys_of(definitions)
