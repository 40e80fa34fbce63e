"""After a change, the smoke test reads new shards and a part of the others; its metadata records which."""

import pytest

from headrace_dagster.assets.loader_smoke_test import COVERAGE
from tests.support.built import BuiltGraph
from tests.support.latent_damage import replace_latents
from tests.support.projects import Graph, Project, failed_checks
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]
REREAD_EVERY = 4


@pytest.fixture(scope="module")
@nothing_drawn()
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("rotation"))
    for i in range(24):
        project.write_noise(f"noise{i:02d}", seed=i)
    project.write_yaml(
        splits={"train": 1.0},
        shards={"samples_per_shard": 2, "partitions": {"train": 2}},
        latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}],
        loader={"num_workers": 0, "reread_every": REREAD_EVERY},
    )
    graph = Graph(project)
    update(graph)
    assert smoke(graph) == set()
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def update(graph: Graph) -> None:
    """Bring audio, latents and snapshots up to date."""
    graph.build()
    for partition in graph.partitions:
        assert graph.run(graph.keys.latent_shards("mel"), partition).success
    assert graph.run(graph.keys.latents_index("mel")).success


def smoke(graph: Graph) -> set[str]:
    """Run the smoke test. Returns the checks that failed."""
    return failed_checks(graph.run(graph.keys.loader_smoke_test))


def metadata(graph: Graph) -> dict:
    event = graph.instance.get_latest_materialization_event(graph.keys.loader_smoke_test)
    return event.asset_materialization.metadata


def shards_read(graph: Graph) -> set[tuple[str, str]]:
    return {(record.data["part"], record.data["shard"]) for record in metadata(graph)["shards_table"].records}


def audio_shards(graph: Graph) -> tuple[int, int, int]:
    """All of them, those that were read, and those that were new."""
    found = metadata(graph)
    return tuple(found[f"audio_shards{kind}"].value for kind in ("", "_read", "_new"))


def passes(graph: Graph) -> int:
    return metadata(graph)[COVERAGE].value["passes"]


def test_the_first_test_reads_everything(graph):
    num_shards = len(graph.project.sizes())
    assert audio_shards(graph) == (num_shards, num_shards, num_shards)
    assert len(shards_read(graph)) == 2 * num_shards
    assert passes(graph) == 1


def test_after_a_change_new_shards_are_read_at_once_and_all_others_within_reread_every_tests(graph):
    before = set(graph.project.sizes())
    graph.project.write_noise("noise03", seed=99)
    update(graph)
    (new,) = set(graph.project.sizes()) - before
    num_shards = len(graph.project.sizes())
    read = []
    for number in range(REREAD_EVERY):
        assert smoke(graph) == set()
        read.append({shard for part, shard in shards_read(graph) if part == "audio"})
        num_new = 0 if number else 1
        assert audio_shards(graph) == (num_shards, len(read[-1]), num_new)
        assert metadata(graph)["latents_mel_encoded_again"].value
        assert 0 < len(read[-1]) < num_shards
    assert new in read[0]
    assert set().union(*read) == set(graph.project.sizes())
    assert passes(graph) == 1 + REREAD_EVERY


def test_a_test_that_fails_reads_the_same_again_until_it_passes(graph):
    sound = {key: value for key, value in graph.project.files().items() if key.startswith("latents/")}
    replace_latents(graph.latents, lambda latents: {key: 2 * hidden for key, hidden in latents.items()})
    for _ in range(2):
        assert smoke(graph) == {"latents_match_audio"}
        assert metadata(graph)["latents_mel_shards_new"].value == len(graph.project.sizes())
        assert passes(graph) == 1
    replace_latents(graph.latents, lambda latents: {key: hidden / 2 for key, hidden in latents.items()})
    assert {path for path in sound if path.endswith(".tar")} <= set(graph.project.files())
    assert smoke(graph) == set()
    assert passes(graph) == 2


def test_a_damaged_old_shard_is_found_within_reread_every_tests(graph):
    graph.project.write_noise("noise03", seed=99)
    old = set(graph.project.sizes())
    update(graph)
    shard = min(old & set(graph.project.sizes()))
    path = graph.project.output / "audio" / shard
    content = bytearray(path.read_bytes())
    at = content.index(b"fLaC")
    content[at + 4 : at + 200] = bytes(196)
    path.chmod(0o644)
    path.write_bytes(bytes(content))
    found = [smoke(graph) for _ in range(REREAD_EVERY)]
    assert "every_key_once" in set().union(*found)


def test_without_the_snapshot_of_the_last_test_everything_is_new(graph):
    for path in (graph.project.output / "audio/snapshots").glob("00000001.json"):
        path.unlink()
    graph.project.write_noise("noise03", seed=99)
    update(graph)
    assert smoke(graph) == set()
    num_shards = len(graph.project.sizes())
    assert audio_shards(graph) == (num_shards, num_shards, num_shards)
