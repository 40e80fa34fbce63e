"""With `runs.partitions_per_run`, a run builds several partitions, and each has what it has in a run of its own."""

# ruff: noqa: TID251

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from headrace.config.operation import RunsConfig
from headrace.encoders import load
from headrace.format.manifests.manifests import newest_manifest
from headrace_dagster.assets.tags import (
    FIRST_PARTITION_TAG,
    LAST_PARTITION_TAG,
    WORK_TAG,
    work_tags,
)
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.activity import active_runs
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count
from tests.support.projects import Graph
from tests.support.several import (
    CHECKED,
    CHECKS,
    LAST,
    LAYOUT,
    PARTITIONED,
    asked_for,
    events_of,
    key,
    passed,
    project_in,
    scanned_daemon,
)
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


@pytest.fixture(scope="module")
@nothing_drawn()
def scanned(tmp_path_factory):
    return SettledDaemon(scanned_daemon(tmp_path_factory.mktemp("several")))


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    """Everything is built, four partitions to a run."""
    daemon = Daemon(project_in(tmp_path_factory.mktemp("settled"), 4))
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(scanned):
    return scanned.put_back()


@pytest.fixture
def built(settled):
    return settled.put_back()


def test_consecutive_stale_partitions_are_one_run(daemon):
    assert asked_for(daemon) == [(tuple(LAYOUT[:4]), PARTITIONED), (tuple(LAYOUT[4:]), PARTITIONED)]


def test_each_partition_has_one_event_with_its_own_version_and_metadata(built):
    config, storage = built.config, StorageResource()
    for name, shards in (
        ("audio_shards", storage.audio(config)),
        ("mel_latent_shards", storage.latents(config, "mel")),
    ):
        events = events_of(built, name)
        assert events.pop(None) == []
        for partition, of_partition in events.items():
            (event,) = of_partition
            manifest = newest_manifest(shards, partition)
            assert event.tags[DATA_VERSION_TAG] == manifest.digest
            assert event.metadata["dagster/row_count"].value == manifest.manifest.num_samples
            assert event.metadata["manifest"].value == manifest.number
    assert len({event.tags[DATA_VERSION_TAG] for (event,) in events.values()}) == len(LAYOUT)


def test_each_partition_has_its_own_results_of_checks(built):
    for name in CHECKED:
        assert passed(built, name) == set(LAYOUT)
    evaluated = [
        entry.get_dagster_event().asset_check_evaluation_data
        for run in built.instance.get_runs()
        for entry in built.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    ]
    of_partitions = [(one.asset_key, one.check_name, one.partition) for one in evaluated if one.partition]
    assert len(of_partitions) == len(set(of_partitions)) == len(CHECKED) * len(CHECKS) * len(LAYOUT)
    assert built.settle() == []
    assert built.reasons["stale_partitions"] == "up to date"


def test_nothing_is_stale_in_the_interface(built):
    graph = Graph(built.project, built.instance)
    for name in PARTITIONED:
        assert {graph.status(key(name), partition) for partition in LAYOUT} == {"FRESH"}
    assert {graph.status(key(name)) for name in LAST} == {"FRESH"}


@pytest.mark.slow
def test_events_equal_those_of_a_run_for_each_partition(built, tmp_path):
    """All tags and metadata, except pointers to other events, and the results of checks with their metadata."""
    other = Daemon(project_in(tmp_path, 1))
    made = other.settle()
    assert count(made, "audio_shards") == len(LAYOUT)
    for name in PARTITIONED:
        assert _comparable(built, name) == _comparable(other, name)
    for name in CHECKED:
        for check in CHECKS:
            assert _evaluations(built, name, check) == _evaluations(other, name, check)
            assert len(_evaluations(built, name, check)) == len(LAYOUT)


def _comparable(daemon, name):
    folder = str(daemon.project.folder)
    return {
        partition: [
            (
                {tag: value for tag, value in event.tags.items() if "event_pointer" not in tag},
                {tag for tag in event.tags if "event_pointer" in tag},
                {
                    entry: str(value.value).replace(folder, "")
                    for entry, value in event.metadata.items()
                    if not entry.endswith(("real_time", "busy_share")) and not entry.startswith("waited_for")
                },
            )
            for event in events
        ]
        for partition, events in events_of(daemon, name).items()
    }


def _evaluations(daemon, name, check):
    history = daemon.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(key(name), check), limit=100
    )
    found = {}
    for record in history:
        evaluation = record.evaluation
        newest = daemon.instance.fetch_materializations(
            dg.AssetRecordsFilter(key(name), asset_partitions=[evaluation.partition]), limit=1
        ).records[0]
        assert evaluation.target_materialization_data.storage_id == newest.storage_id
        assert evaluation.target_materialization_data.run_id == newest.run_id
        assert evaluation.partition not in found
        found[evaluation.partition] = (
            evaluation.passed,
            evaluation.severity,
            evaluation.blocking,
            evaluation.description,
            {entry: value.value for entry, value in evaluation.metadata.items()},
        )
    return found


def test_one_changed_recording_is_a_run_of_one_partition_as_ever(built):
    built.project.write_tone("tone004", hz=999)
    (scan,) = built.tick("source_changes")
    assert built.run(scan).success
    (request,) = built.tick("stale_partitions")
    assert request.partition_key == built.project.partition_of("tone004.wav")
    assert [name for name in request.tags if name.startswith(WORK_TAG)] == work_tags(1)
    assert FIRST_PARTITION_TAG not in request.tags
    assert built.run(request).success
    assert built.settle() == []


def test_checks_that_run_alone_read_the_shards_of_each_partition(built):
    selection = dg.AssetSelection.checks_for_assets(key("audio_shards"))
    definitions = dg.Definitions.merge(
        built.definitions, dg.Definitions(jobs=[dg.define_asset_job("again", selection)])
    )
    victim = next((built.project.output / "audio").glob("train_0001_*.tar"))
    damaged = bytearray(victim.read_bytes())
    damaged[:512] = b"\0" * 512
    victim.write_bytes(bytes(damaged))
    result = definitions.resolve_job_def("again").execute_in_process(
        instance=built.instance,
        tags={FIRST_PARTITION_TAG: LAYOUT[0], LAST_PARTITION_TAG: LAYOUT[3]},
        raise_on_error=False,
    )
    found = {(one.partition, one.check_name): one for one in result.get_asset_check_evaluations()}
    assert set(found) == {(partition, check) for partition in LAYOUT[:4] for check in CHECKS}
    assert not result.success
    assert [name for name, one in found.items() if not one.passed] == [("train-0001", "index_matches_tar")]
    assert not any("shards_compared" in one.metadata for one in found.values())


def test_partitions_of_a_run_in_progress_are_not_started_again(daemon):
    (first, _) = daemon.tick("stale_partitions")
    daemon.instance.create_run_for_job(daemon.job, tags=dict(first.tags), asset_selection=set(first.asset_selection))
    (active,) = active_runs(daemon.instance, daemon.project.dataset())
    assert active.partitions == tuple(LAYOUT[:4])
    assert asked_for(daemon) == [(tuple(LAYOUT[4:]), PARTITIONED)]


def test_the_bounds_count_partitions(daemon):
    daemon.project.write_yaml(runs={"partitions_per_run": 2, "per_tick": 5, "in_flight": 16})
    daemon.reload()
    assert [len(partitions) for partitions, _ in asked_for(daemon)] == [2, 2, 1]
    daemon.project.write_yaml(runs={"partitions_per_run": 2, "per_tick": 8, "in_flight": 3})
    daemon.reload()
    assert [len(partitions) for partitions, _ in asked_for(daemon)] == [2, 1]


def test_backfills_put_as_many_partitions_into_a_run_and_by_default_one(daemon):
    def policies():
        graph = daemon.definitions.resolve_asset_graph()
        return {key.path[-1]: graph.get(key).backfill_policy for key in graph.materializable_asset_keys}

    found = policies()
    assert {name for name, policy in found.items() if policy is not None} == set(PARTITIONED)
    assert {found[name].max_partitions_per_run for name in PARTITIONED} == {4}
    daemon.project.write_yaml(runs={})
    daemon.reload()
    assert set(policies().values()) == {None}


def test_the_partitions_of_a_run_use_one_encoder(daemon, monkeypatch):
    loaded = []
    monkeypatch.setattr("headrace_dagster.resources.encoders.load", lambda *given: loaded.append(given) or load(*given))
    assert all(daemon.run(request).success for request in daemon.tick("stale_partitions"))
    assert len(loaded) == 2  # runs


def test_more_partitions_per_run_than_a_tick_starts_are_an_error():
    with pytest.raises(
        ValueError, match=r"partitions_per_run is 9: expected at most per_tick \(8\) and in_flight \(16\)"
    ):
        RunsConfig(partitions_per_run=9)
    assert RunsConfig(partitions_per_run=9, per_tick=9).partitions_per_run == 9
