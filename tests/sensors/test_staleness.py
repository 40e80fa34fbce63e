"""Materializing `catalog` alone makes exactly the right partitions stale."""

import pytest

from tests.support.built import BuiltGraph
from tests.support.projects import Graph, Project, touch
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


@pytest.fixture(scope="module")
@nothing_drawn()
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("staleness"))
    project.write_titled_tones(12)
    graph = Graph(project)
    graph.build()
    assert graph.stale_partitions() == []
    assert graph.status(graph.keys.sizes_index) == "FRESH"
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def test_everything_is_missing_before_the_first_build(tmp_path):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml()
    graph = Graph(project)
    assert graph.stale_partitions() == graph.partitions
    graph.scan()
    assert graph.stale_partitions() == graph.partitions


def test_a_changed_file_makes_just_its_partition_stale(graph):
    graph.project.write_tone("tone004", hz=999)
    graph.scan()
    assert graph.stale_partitions() == [graph.project.partition_of("tone004.wav")]


def test_a_change_that_is_undone_leaves_nothing_stale(graph):
    graph.project.write_tone("tone004", hz=999)
    graph.scan()
    graph.project.write_tone("tone004", hz=204)
    graph.scan()
    assert graph.stale_partitions() == []


def test_a_change_that_is_undone_after_a_build_is_built_again(graph):
    sizes = graph.project.sizes()
    graph.project.write_tone("tone004", hz=999)
    graph.build()
    assert graph.project.sizes() != sizes
    graph.project.write_tone("tone004", hz=204)
    graph.scan()
    assert graph.stale_partitions() == [graph.project.partition_of("tone004.wav")]
    graph.build()
    assert graph.project.sizes() == sizes


def test_a_deleted_file_makes_just_its_partition_stale(graph):
    partition = graph.project.partition_of("tone007.wav")
    (graph.project.recordings / "tone007.wav").unlink()
    graph.scan()
    assert graph.stale_partitions() == [partition]


def test_a_new_file_makes_just_its_partition_stale(graph):
    graph.project.write_tone("new/one")
    graph.scan()
    assert graph.stale_partitions() == [graph.project.partition_of("new/one.wav")]


def test_a_changed_metadata_row_makes_just_its_partition_stale(graph):
    table = graph.project.folder / "metadata.csv"
    table.write_text(table.read_text().replace("title 3\n", "another title\n"))
    graph.scan()
    assert graph.stale_partitions() == [graph.project.partition_of("tone003.wav")]


def test_touching_files_makes_nothing_stale(graph):
    for path in graph.project.recordings.iterdir():
        touch(path)
    graph.scan()
    assert graph.stale_partitions() == []


def test_other_audio_settings_make_every_partition_stale(graph):
    graph.project.write_yaml(audio={"bits_per_sample": 24})
    graph.reload()
    assert graph.stale_partitions() == graph.partitions


def test_the_index_is_stale_once_a_partition_was_rebuilt(graph):
    graph.project.write_tone("tone004", hz=999)
    graph.scan()
    graph.run(graph.keys.audio_shards, graph.project.partition_of("tone004.wav"))
    assert graph.status(graph.keys.sizes_index) == "STALE"


def test_an_index_over_partitions_that_are_not_built_fails_and_names_them(graph):
    graph.project.write_tone("tone004", hz=999)
    graph.scan()
    result = graph.run(graph.keys.sizes_index)
    assert not result.success
    message = next(e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure)
    assert graph.project.partition_of("tone004.wav") in message
    assert "changed" in message


def test_a_partition_that_left_the_layout_is_in_no_snapshot(graph):
    graph.project.write_yaml(shards={"samples_per_shard": 2, "partitions": {"train": 1, "test": 1}})
    graph.reload()
    graph.build()
    assert sum(graph.project.sizes().values()) == 12
    assert not any(name.startswith(("train_0001", "train_0002")) for name in graph.project.sizes())
