"""Limits of the requests that a build sends to an object store: more than these numbers is a fault."""

import pytest

from tests.support.counting_s3 import counting_server
from tests.support.projects import Graph, Project, failed_checks
from tests.support.s3 import new_bucket

pytestmark = pytest.mark.medium

NUM_RECORDINGS = 24
PER_SHARD = 2
PARTITIONS = ("train-0000", "train-0001")
NUM_SHARDS = 12  # and one more if a partition has an odd number of recordings


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("moto.server")
    with counting_server() as (url, app):
        yield url, app


@pytest.fixture
def bucket(server, tmp_path, monkeypatch, undrawn):
    """A project whose output is in a bucket, and the counter of its requests."""
    url, app = server
    project = Project(tmp_path)
    project.write_tones(NUM_RECORDINGS)
    output = f"{new_bucket(url, monkeypatch)}/out"
    shards = {"samples_per_shard": PER_SHARD, "partitions": {"train": len(PARTITIONS)}}
    project.write_yaml(splits={"train": 1.0}, shards=shards, output={"uri": output})
    return Graph(project), app


def build(graph, app):
    """Materialize what is stale. Returns the requests by step, and the number of shards."""
    found = {}
    with app.counted() as found["catalog"]:
        assert failed_checks(graph.scan()) == set()
    with app.counted() as found["shards"]:
        for partition in graph.stale_partitions():
            assert graph.run(graph.keys.audio_shards, partition).success
    with app.counted() as found["index"]:
        assert graph.run(graph.keys.sizes_index).success
    return found


def shards_of(graph) -> dict[str, int]:
    """Name and size of each tar."""
    return {entry.path: entry.num_bytes for entry in graph.audio.list() if entry.path.endswith(".tar")}


def test_a_first_build_writes_each_object_once_and_reads_almost_nothing_back(bucket):
    graph, app = bucket
    kinds = (steps := build(graph, app))["shards"].kinds
    shards = shards_of(graph)
    per_shard, per_partition = len(shards), len(PARTITIONS)
    assert len(shards) in {NUM_SHARDS, NUM_SHARDS + 1}
    assert kinds["PUT"] == 2 * per_shard + 2 * per_partition  # tars and indexes; manifests and planned keys
    assert kinds["LIST"] <= per_shard + 8 * per_partition
    assert kinds["HEAD tar"] == kinds["HEAD idx"] == 0
    assert kinds["GET idx"] <= per_shard + 4 * per_partition  # is it there already?; and the pictures' four
    assert kinds["GET tar"] <= 3 * per_partition  # three samples are drawn
    assert steps["shards"].bytes_of_tars <= 0.5 * sum(shards.values())
    assert steps["index"].total <= 50


def test_a_build_without_changes_asks_little_and_writes_no_shard(bucket):
    graph, app = bucket
    build(graph, app)
    steps = build(graph, app)
    assert steps["shards"].total == 0
    assert sum(step.total for step in steps.values()) < 100


def test_one_changed_recording_touches_its_own_shard(bucket):
    graph, app = bucket
    build(graph, app)
    before = shards_of(graph)
    graph.project.write_tone("tone003", hz=999)
    kinds = (steps := build(graph, app))["shards"].kinds
    made = shards_of(graph).keys() - before.keys()
    assert len(made) == 1
    assert kinds["PUT"] == 4  # tar, index, manifest, planned keys
    assert kinds["HEAD tar"] == kinds["HEAD idx"] == 0
    assert kinds["LIST"] <= 10
    assert kinds["GET tar"] <= 3
    assert steps["shards"].bytes_of_tars <= sum(shards_of(graph)[name] for name in made) * PER_SHARD


def test_a_check_that_runs_alone_reads_its_shards(bucket):
    graph, app = bucket
    build(graph, app)
    checks = graph.definitions.resolve_asset_graph().get(graph.keys.audio_shards).check_keys
    job = graph.job.get_subset(asset_selection=[], asset_check_selection=set(checks))
    with app.counted() as requests:
        result = job.execute_in_process(instance=graph.instance, partition_key=PARTITIONS[0], raise_on_error=False)
    assert failed_checks(result) == set()
    assert requests.kinds["GET tar"] >= NUM_SHARDS // 3
