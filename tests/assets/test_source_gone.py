"""A source that is not there, such as a mount that is gone, stops only what needs a recording."""

import shutil

import pytest

from tests.support.projects import Graph, Project, failed_checks

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


@pytest.fixture
def graph(tmp_path):
    project = Project(tmp_path)
    project.write_tones(6)
    project.write_yaml(splits={"all": 1.0}, shards={"samples_per_shard": 2})
    graph = Graph(project)
    graph.build()
    return graph


def test_partitions_that_need_no_recording_are_built_without_the_source(graph):
    shutil.rmtree(graph.project.recordings)
    graph.project.write_yaml(shards={"samples_per_shard": 3})  # all samples are in shards already
    graph.reload()
    result = graph.run(graph.keys.audio_shards, "all-0000")
    assert result.success
    assert not failed_checks(result)
    assert graph.run(graph.keys.sizes_index).success
    assert sorted(graph.project.sizes().values()) == [3, 3]


def test_a_partition_that_needs_a_recording_fails_and_names_the_source(graph):
    shutil.rmtree(graph.project.recordings)
    graph.project.write_yaml(audio={"sample_rate": 16000})
    graph.reload()
    result = graph.run(graph.keys.audio_shards, "all-0000")
    assert not result.success
    message = next(e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure)
    assert "there is no such folder" in message
    assert sorted(graph.project.sizes().values()) == [2, 2, 2]
