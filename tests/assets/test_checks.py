"""Each asset check fails for the fault that it looks for, and passes otherwise."""

import json

import pytest

from headrace.format.indexes.index import ShardIndex
from headrace.format.shards.writer import ShardWriter
from tests.support.built import BuiltGraph
from tests.support.projects import Graph, Project, failed_checks


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("checks"))
    project.write_tones(6)
    project.write_yaml()
    graph = Graph(project)
    graph.build()
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def first_shard(graph: Graph) -> tuple[str, str]:
    """A shard's name and its partition."""
    name = next(iter(graph.project.sizes()))
    split, bucket, _ = name.split("_")
    return name, f"{split}-{bucket}"


def run_checks(graph: Graph, key, partition=None) -> set[str]:
    """Run only the checks of an asset, as a person does in the UI."""
    checks = graph.definitions.resolve_asset_graph().get(key).check_keys
    result = graph.job.get_subset(asset_selection=[], asset_check_selection=set(checks)).execute_in_process(
        instance=graph.instance, partition_key=partition, raise_on_error=False
    )
    return failed_checks(result)


@pytest.mark.medium
def test_all_checks_pass_after_a_build(graph):
    _name, partition = first_shard(graph)
    assert run_checks(graph, graph.keys.audio_shards, partition) == set()
    assert run_checks(graph, graph.keys.sizes_index) == set()


@pytest.mark.medium
def test_a_tar_that_is_not_what_its_index_says_is_found(graph):
    name, partition = first_shard(graph)
    path = graph.project.output / "audio" / name
    path.write_bytes(path.read_bytes().replace(b".flac", b".wave", 1))
    assert run_checks(graph, graph.keys.audio_shards, partition) == {"index_matches_tar"}


def test_a_tar_that_is_cut_off_is_found(graph):
    name, partition = first_shard(graph)
    path = graph.project.output / "audio" / name
    path.write_bytes(path.read_bytes()[:3000])
    assert run_checks(graph, graph.keys.audio_shards, partition) == {"index_matches_tar"}
    assert run_checks(graph, graph.keys.sizes_index) == {"sizes_match_snapshot"}


def test_a_sample_that_was_planned_and_never_written_is_found(graph, monkeypatch):
    _name, partition = first_shard(graph)
    monkeypatch.setattr(ShardIndex, "keys", lambda self: [self.key(i) for i in range(1, len(self))])
    assert "conservation" in run_checks(graph, graph.keys.audio_shards, partition)


def test_sizes_that_differ_from_the_snapshot_are_found(graph):
    path = graph.project.output / "audio/sizes.json"
    sizes = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: count + 1 for name, count in sizes.items()}))
    assert run_checks(graph, graph.keys.sizes_index) == {"sizes_match_snapshot"}


@pytest.mark.medium
def test_a_shard_that_is_gone_is_found(graph):
    (graph.project.output / "audio" / first_shard(graph)[0]).unlink()
    assert run_checks(graph, graph.keys.sizes_index) == {"sizes_match_snapshot"}


@pytest.mark.medium
def test_a_rejected_recording_is_counted_and_shown(tmp_path):
    project = Project(tmp_path)
    project.write_tones(5)
    path = project.write_tone("broken", seconds=2.0)
    path.write_bytes(path.read_bytes()[:2000])
    (project.recordings / "empty.wav").touch()
    project.write_yaml()
    graph = Graph(project)
    result = graph.scan()
    assert failed_checks(result) == set()
    numbers = {e.check_name: e for e in result.get_asset_check_evaluations()}["conservation"].metadata
    assert numbers["files_found"].value == 7
    assert numbers["files_found"].value == numbers["recordings"].value + numbers["rejected"].value


@pytest.mark.medium
def test_a_catalog_without_recordings_blocks_later_assets(tmp_path):
    project = Project(tmp_path)
    project.recordings.mkdir()
    (project.recordings / "notes.txt").write_text("no audio")
    project.write_yaml()
    result = Graph(project).scan()
    assert not result.success
    assert failed_checks(result) == {"has_recordings"}


@pytest.mark.medium
def test_a_catalog_that_failed_its_checks_blocks_the_shards_in_every_run(tmp_path, undrawn):
    """A mount that is gone: shards that are emptied would all have to be made again."""
    project = Project(tmp_path)
    project.write_tones(4)
    project.write_yaml()
    graph = Graph(project)
    graph.build()
    before = project.files()
    for path in list(project.recordings.iterdir()):
        path.unlink()
    assert failed_checks(graph.scan()) == {"has_recordings", "dropped_audio"}
    for partition in project.config().partitioning().partition_keys():
        result = graph.run(graph.keys.audio_shards, partition)
        assert not result.success
    assert {path: blob for path, blob in project.files().items() if path.startswith("audio/")} == {
        path: blob for path, blob in before.items() if path.startswith("audio/")
    }


def test_metadata_shows_counts_hours_bytes_tables_and_pictures(graph):
    _name, _partition = first_shard(graph)
    shards = graph.instance.get_latest_materialization_event(graph.keys.audio_shards).asset_materialization.metadata
    catalog = graph.instance.get_latest_materialization_event(graph.keys.catalog).asset_materialization.metadata
    index = graph.instance.get_latest_materialization_event(graph.keys.sizes_index).asset_materialization.metadata
    assert {"dagster/row_count", "audio_hours", "shard_bytes", "shards_table", "durations_picture"} <= set(shards)
    assert {"dagster/row_count", "dagster/column_schema", "audio_hours", "rejected"} <= set(catalog)
    assert {"dagster/row_count", "shards", "audio_hours", "splits_table", "snapshot"} <= set(index)
    assert "data:image/png;base64," in shards["waveforms_picture"].value
    assert len(shards["waveforms_picture"].value) + len(shards["durations_picture"].value) < 40_000


@pytest.mark.medium
def test_latents_that_the_yaml_no_longer_names_are_listed_with_their_size(tmp_path):
    project = Project(tmp_path)
    project.write_tones(2)
    project.write_yaml(latents=[{"name": "new", "encoder": {"kind": "log_mel"}}])
    for name in ("new/a.tar", "old/b.tar", "old/snapshots/1.json"):
        path = project.output / "latents" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(600))
    graph = Graph(project)
    assert graph.scan().success
    event = graph.instance.get_latest_materialization_event(graph.keys.catalog)
    said = event.asset_materialization.metadata["left_behind"].value
    assert said.startswith("latents/old (1,200 bytes): no longer in the YAML; `headrace gc ")


@pytest.mark.medium
def test_the_run_that_builds_a_partition_does_not_open_its_shards_again(graph, monkeypatch):
    """The writer compared them before it stored them; they are read after a failure and when a check runs alone."""
    _name, partition = first_shard(graph)
    opened = []
    monkeypatch.setattr(
        "headrace_dagster.assets.checks.index_faults", lambda storage, shard: opened.append(shard.name) or []
    )
    assert graph.run(graph.keys.audio_shards, partition).success
    assert opened == []
    assert run_checks(graph, graph.keys.audio_shards, partition) == set()
    assert opened != []


@pytest.mark.medium
def test_a_partition_whose_check_failed_is_read_by_the_next_run_of_its_asset(graph):
    """A damaged shard has the right size, so the build uses it again: the check must not pass unread."""
    name, partition = first_shard(graph)
    path = graph.project.output / "audio" / name
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b".flac", b".wave", 1))
    assert run_checks(graph, graph.keys.audio_shards, partition) == {"index_matches_tar"}
    assert failed_checks(graph.run(graph.keys.audio_shards, partition)) == {"index_matches_tar"}
    path.write_bytes(whole)
    assert failed_checks(graph.run(graph.keys.audio_shards, partition)) == set()


@pytest.mark.medium
def test_a_shard_without_a_planned_sample_is_not_written(tmp_path, monkeypatch, undrawn):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 4, "partitions": {"train": 1}})
    graph = Graph(project)
    assert graph.scan().success
    whole = ShardWriter.add
    monkeypatch.setattr(ShardWriter, "add", lambda self, key, *rest: self.keys or whole(self, key, *rest))
    result = graph.run(graph.keys.audio_shards, "train-0000")
    (message,) = (e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure)
    assert "would have 1 samples, expected 3" in message
    assert list((project.output / "audio").glob("*.tar")) == []
