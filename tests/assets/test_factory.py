"""Checks the definitions that Dagster loads: the assets, their edges and their checks."""

import json
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import dagster as dg
import pytest

from headrace.config.dataset import load_config
from headrace.config.folder import find_configs
from headrace_dagster import dataset_definitions
from tests.support.projects import Project, assets_of

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/asset_graph.json"
LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]


def described(definitions: dg.Definitions) -> dict:
    """The graph as text: per asset what it depends on, is made with, and is checked for."""
    graph = definitions.resolve_asset_graph()
    nodes = (graph.get(key) for key in sorted(graph.get_all_asset_keys()))
    return {
        node.key.to_user_string(): {
            "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
            "partitions": len(node.partitions_def.get_partition_keys()) if node.partitions_def else 0,
            "checks": sorted(check.name for check in node.check_keys),
            "kinds": sorted(node.kinds),
            "group": node.group_name,
            "owners": sorted(node.owners),
            "external": node.is_external,
            "pools": sorted(node.pools or ()),
        }
        for node in nodes
    }


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.write_yaml(latents=LATENTS)
    return project


def test_the_asset_graph_is_that_of_the_golden_file(project):
    """After an intended change: HEADRACE_GOLDEN=write in the environment writes it again."""
    found = described(assets_of(project.config()))
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("owners", [["ada@example.org", "team:birds"], []])
def test_the_owners_of_the_yaml_are_those_of_every_asset(project, owners):
    project.write_yaml(owners=owners)
    graph = assets_of(project.config()).resolve_asset_graph()
    assert {tuple(graph.get(key).owners) for key in graph.get_all_asset_keys()} == {tuple(owners)}


def test_a_graph_that_shows_the_last_part_of_a_key_shows_no_name_twice(project):
    project.write_yaml(latents=[{**LATENTS[0], "name": name} for name in ("mel", "coarse")])
    graph = assets_of(project.config()).resolve_asset_graph()
    names = sorted(key.path[-1] for key in graph.get_all_asset_keys())
    assert names == sorted({*names})
    assert {"mel_latent_shards", "mel_sizes_index", "coarse_latent_shards", "coarse_sizes_index"} < {*names}
    assert {len(key.path) for key in graph.get_all_asset_keys()} == {2}


def test_every_asset_has_a_description(project):
    graph = assets_of(project.config()).resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        assert len(graph.get(key).description or "") > 40, key


def test_definitions_load_without_a_warning_and_without_io(project):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        definitions = assets_of(project.config())
        dg.Definitions.validate_loadable(definitions)
    assert not project.output.exists()
    assert not project.recordings.exists()


@pytest.mark.medium
def test_loading_graph_and_sensors_imports_nothing_heavy(project):
    """A code server holds what is loaded for as long as it runs; `test_sensors` holds the same of ticks."""
    heavy = ("torch", "matplotlib", "webdataset", "polars", "pandas", "pandera", "pyarrow")
    code = f"import sys, definitions; print([m for m in {heavy} if m in sys.modules])"
    environment = {"HEADRACE_DATASETS": str(project.datasets), "PATH": "", "HOME": str(project.folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.medium
def test_two_data_sets_share_nothing_but_the_shape(project):
    other = project.datasets / "others.yaml"
    other.write_text((project.datasets / "tones.yaml").read_text())
    found = described(assets_of(project.config(), load_config(other)))
    tones = {key.removeprefix("tones/") for key in found if key.startswith("tones/")}
    others = {key.removeprefix("others/") for key in found if key.startswith("others/")}
    assert tones == others
    assert len(found) == len(tones) + len(others)


def test_an_invalid_yaml_is_not_loaded_and_the_log_names_file_key_and_expectation(project, monkeypatch, caplog):
    (project.datasets / "broken.yaml").write_text("source: {uri: a}\noutput: {uri: b}\nshards: {sample_per_shard: 3}\n")
    monkeypatch.setenv("HEADRACE_DATASETS", str(project.datasets))
    loaded = runpy.run_path(str(ROOT / "definitions.py"))["defs"]
    assert {key.path[0] for key in loaded.resolve_asset_graph().materializable_asset_keys} == {"tones"}
    assert "broken.yaml" in caplog.text
    assert "shards.sample_per_shard" in caplog.text
    assert "did you mean samples_per_shard" in caplog.text


INVALID = {
    "no YAML": "source: {uri: x",
    "a wrong key": "source: {uri: a}\noutput: {uri: b}\nshards: {sample_per_shard: 3}\n",
    "nothing": "",
    "another's output": None,
}


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("name", ["broken", "bro-ken.2", "tones"])
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_data_set_whose_yaml_is_invalid_is_an_asset_that_shows_the_error(project, text, name, is_alone):
    own = project.datasets / "tones.yaml"
    content = own.read_text() if text is None else text
    if is_alone:
        own.unlink()
    (project.datasets / f"{name}.yml").write_text(content)
    if text is None and is_alone:
        return  # no fault
    found = find_configs(project.datasets, project.folder)
    definitions = dataset_definitions(project.datasets, root=project.folder, key_prefix="audio")
    graph = definitions.resolve_asset_graph()
    shown = {key.path[1]: graph.get(key) for key in graph.get_all_asset_keys() if key.path[-1] == "invalid_yaml"}
    assert {path.stem.replace("-", "_").replace(".", "_") for path in found.invalid} == shown.keys()
    for path, fault in found.invalid.items():
        node = shown[path.stem.replace("-", "_").replace(".", "_")]
        assert fault in node.description
        assert node.group_name == node.key.path[1]
        assert not node.is_materializable
    assert {config.name for config in found.configs} == {key.path[1] for key in graph.materializable_asset_keys}
    assert any(sensor.name == "headrace_definitions_changes" for sensor in definitions.sensors)
