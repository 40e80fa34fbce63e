"""Tests of `headrace_dagster.project_resources`."""

import sys
from pathlib import Path

import pytest

from headrace.config.folder import use_project
from headrace.encoders import weights
from headrace_dagster import EncodersResource, dataset_definitions
from headrace_dagster.assets.factory import default_resources
from headrace_dagster.folder import with_defaults
from headrace_dagster.project_resources import EncoderSettings, resources_of


def test_the_launchpad_shows_the_fields_of_the_encoders():
    schema = EncodersResource.to_config_schema().as_field()
    fields = schema.config_type.fields
    assert {*fields} == {"devices", "batch_seconds", "compile", "num_threads"}
    assert all(field.description for field in fields.values())
    assert {*EncoderSettings.model_fields} == {*fields}


DOORS = {
    "commands": use_project,
    "resources": default_resources,
    "components": lambda root: resources_of([], root),
    "definitions": lambda root: dataset_definitions(root, root=root),
    "tests": lambda root: with_defaults({}, root),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_of_a_project_finds_files_of_encoders_below_its_root(door, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "_ROOTS", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "some.npy").touch()
    assert weights.local_path("some.npy") == Path("some.npy")
    DOORS[door](tmp_path)
    assert weights.local_path("some.npy") == tmp_path / "some.npy"
