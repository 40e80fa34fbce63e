"""The process of a run loads the data set of that run, and a code server loads all of them."""

# ruff: noqa: TID251

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._grpc.impl import core_execute_run

from headrace_dagster.assets.tags import ASSET_JOB, DATASET_TAG
from tests.support.projects import Project

NAMES = ("birds", "drums", "tones")
FILES = ("server", "run")
MODULE = """
import os
import dagster as dg
from headrace_dagster import dataset_definitions, names_of_run

names = names_of_run()
with open(os.environ["LOADED"], "a") as file:
    print(*(names or ["all"]), file=file)
defs = dataset_definitions({folder!r}, root={folder!r}, executor=dg.in_process_executor, names=names)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, undrawn):
    project = Project(tmp_path)
    project.write_tones(2)
    project.write_yaml()
    text = (project.datasets / "tones.yaml").read_text()
    for name in NAMES[:2]:
        (project.datasets / f"{name}.yaml").write_text(text.replace(str(project.output), str(tmp_path / name)))
    for name in FILES:  # two processes; in one, Dagster would load the same file once
        (tmp_path / f"{name}.py").write_text(MODULE.format(folder=str(project.datasets)))
    monkeypatch.setenv("LOADED", str(tmp_path / "loaded"))
    return tmp_path


def executed(folder, tags) -> list[str]:
    """Execute a run as its own process does. Returns the names of its steps."""
    server, process = (ReconstructableRepository.for_file(str(folder / f"{name}.py"), "defs") for name in FILES)
    key = dg.AssetKey(["tones", "catalog"])
    with dg.instance_for_test() as instance:
        job = server.get_definition().get_maybe_subset_job_def(ASSET_JOB, asset_selection={key})
        run = instance.create_run_for_job(job, tags=tags, asset_selection=frozenset({key}))
        events = list(
            core_execute_run(process.get_reconstructable_job(ASSET_JOB), run, instance, inject_env_vars=False)
        )
    return [event.step_key for event in events if event.is_step_success]


@pytest.mark.slow
def test_a_run_of_one_data_set_loads_only_that_one(folder):
    assert "tones__catalog" in executed(folder, {DATASET_TAG: "tones"})
    assert (folder / "loaded").read_text().split() == ["all", "tones"]


@pytest.mark.slow
def test_a_run_that_names_no_data_set_loads_all(folder):
    assert "tones__catalog" in executed(folder, {})
    assert (folder / "loaded").read_text().split() == ["all", "all"]
