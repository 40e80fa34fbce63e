"""Exactly the right latents are stale: their own encoder's, and those of the audio that changed."""

import pytest

from tests.support.built import BuiltGraph
from tests.support.projects import Graph, Project, touch
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


def mel(name: str, num_mels: int) -> dict[str, object]:
    return {"name": name, "encoder": {"kind": "log_mel", "num_mels": num_mels}}


@pytest.fixture(scope="module")
@nothing_drawn()
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("latents"))
    project.write_tones(6)
    project.write_yaml(shards={"samples_per_shard": 2, "partitions": {"train": 1, "test": 1}})
    project.write_yaml(latents=[mel("coarse", 8), mel("fine", 16)])
    graph = Graph(project)
    graph.build()
    for name in ("coarse", "fine"):
        for partition in graph.partitions:
            assert graph.run(graph.keys.latent_shards(name), partition).success
        assert graph.run(graph.keys.latents_index(name)).success
    assert stale(graph) == set()
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def stale(graph: Graph) -> set[tuple[str, str]]:
    """Latents that the UI shows as missing or stale."""
    return {
        (name, partition)
        for name in ("coarse", "fine")
        for partition in graph.partitions
        if graph.status(graph.keys.latent_shards(name), partition) != "FRESH"
    }


def files(graph: Graph, name: str) -> dict[str, bytes]:
    """Every file of one set of latents."""
    prefix = f"latents/{name}/"
    return {path: content for path, content in graph.project.files().items() if path.startswith(prefix)}


def test_another_encoder_makes_its_own_latents_stale_and_no_others(graph):
    before = files(graph, "coarse")
    graph.project.write_yaml(latents=[mel("coarse", 8), mel("fine", 20)])
    graph.reload()
    assert stale(graph) == {("fine", partition) for partition in graph.partitions}
    assert graph.stale_partitions() == []
    for partition in graph.partitions:
        assert graph.run(graph.keys.latent_shards("fine"), partition).success
    assert stale(graph) == set()
    assert files(graph, "coarse") == before


def test_touched_sources_make_no_latents_stale(graph):
    for path in graph.project.recordings.iterdir():
        touch(path)
    graph.scan()
    assert graph.stale_partitions() == []
    assert stale(graph) == set()


def test_a_changed_recording_makes_its_partitions_latents_stale(graph):
    graph.project.write_tone("tone002", hz=999)
    graph.scan()
    (changed,) = graph.stale_partitions()
    assert graph.run(graph.keys.audio_shards, changed).success
    assert stale(graph) == {("coarse", changed), ("fine", changed)}
