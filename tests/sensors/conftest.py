"""Fixtures of the tests in this folder."""

import pytest

from tests.support.projects import Project


@pytest.fixture
def project(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(4)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 2, "partitions": {"train": 1}})
    return project
