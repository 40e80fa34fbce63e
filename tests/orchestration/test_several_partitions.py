"""With `runs.partitions_per_run`, a run builds several partitions, and each has what it has in a run of its own."""

# ruff: noqa: TID251

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG

import headrace_dagster.assets.audio_shards as audio_assets
import headrace_dagster.assets.latent_shards as latent_assets
import tests.daemons
from headrace.build.waves import RunPatience
from headrace.config.operation import RunsConfig
from headrace.encoders import load
from headrace.errors import BuildError
from headrace.format.manifests import newest_manifest
from headrace_dagster.assets.history import forgettable_runs
from headrace_dagster.assets.tags import (
    FIRST_PARTITION_TAG,
    LAST_PARTITION_TAG,
    PARTITION_TAG,
    partitions_of_run,
    work_tags,
)
from headrace_dagster.resources.dagster_internals.event_log import CheckResult, partition_check_results
from headrace_dagster.resources.encoders import EncoderLoader
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.activity import active_runs
from tests.built import SettledDaemon
from tests.daemons import Daemon, count
from tests.failing_checks import fail_index_check
from tests.projects import Graph, Project
from tests.undrawn import nothing_drawn

pytestmark = pytest.mark.usefixtures("undrawn")

LAYOUT = ["test-0000", "test-0001", "train-0000", "train-0001", "train-0002", "train-0003"]
PARTITIONED = ["audio_shards", "metadata_columns", "mel_latent_shards"]
CHECKED = ["audio_shards", "mel_latent_shards"]
LAST = ("sizes_index", "metadata_columns_index", "mel_sizes_index", "loader_smoke_test", "dataset_report")
CHECKS = ("conservation", "index_matches_tar")
BAD, BEFORE, BEHIND = LAYOUT[2], tuple(LAYOUT[:2]), tuple(LAYOUT[3:4])
"""The third of the four partitions of the first run fails."""


def project_in(folder, partitions_per_run) -> Project:
    project = Project(folder)
    project.write_tones(18)
    project.write_yaml(
        shards={"samples_per_shard": 2, "partitions": {"train": 4, "test": 2}},
        latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}],
        runs={"partitions_per_run": partitions_per_run},
    )
    return project


@pytest.fixture(scope="module")
@nothing_drawn()
def scanned(tmp_path_factory):
    """A source that has been scanned; nothing is built."""
    daemon = Daemon(project_in(tmp_path_factory.mktemp("several"), 4))
    (scan,) = daemon.tick("source_changes")
    assert daemon.run(scan).success
    return SettledDaemon(daemon)


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


def key(name) -> dg.AssetKey:
    return dg.AssetKey(["tones", name])


def partitions_of(request) -> tuple[str, ...]:
    tags = dict(request.tags)
    if request.partition_key is not None:
        tags[PARTITION_TAG] = request.partition_key
    return partitions_of_run(dg.DagsterRun("job", tags=tags), LAYOUT)


def asked_for(daemon) -> list[tuple[tuple[str, ...], list[str]]]:
    """The partitions and the partitioned assets of each run that a tick asks for."""
    return [
        (partitions_of(request), [key.path[-1] for key in request.asset_selection if key.path[-1] in PARTITIONED])
        for request in daemon.tick("stale_partitions")
    ]


def events_of(daemon, name) -> dict[str, list[dg.AssetMaterialization]]:
    """All materializations of an asset by partition, oldest first."""
    found = daemon.instance.fetch_materializations(key(name), limit=1000, ascending=True).records
    return {
        partition: [record.asset_materialization for record in found if record.partition_key == partition]
        for partition in [*LAYOUT, None]
    }


def passed(daemon, name) -> set[str]:
    """Partitions of an asset of which all checks have passed."""
    results = partition_check_results(daemon.instance, [dg.AssetCheckKey(key(name), check) for check in CHECKS])
    assert {partition for _, partition in results} <= set(LAYOUT)  # and not the None of a whole range
    return {
        partition
        for partition in LAYOUT
        if {results.get((dg.AssetCheckKey(key(name), check), partition)) for check in CHECKS} == {CheckResult.PASSED}
    }


def failing(monkeypatch, error, *partitions):
    """Make the audio of partitions fail until the returned function is called."""
    real, broken = audio_assets.build_partition, set(partitions or [BAD])

    def build(name, *args, **settings):
        if name in broken:
            raise error
        return real(name, *args, **settings)

    monkeypatch.setattr(audio_assets, "build_partition", build)
    return broken.clear


def without_patience(monkeypatch):
    """Failed work is tried again at the next tick."""
    monkeypatch.setattr(tests.daemons, "_PATIENCE", RunPatience((0.0, 0.0)))


def last_failure(daemon) -> str:
    """The message of the failed step of the newest failed run."""
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    (run,) = daemon.instance.get_runs(failed, limit=1)
    (entry,) = daemon.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return entry.get_dagster_event().step_failure_data.user_failure_data.description


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
            assert event.metadata["samples"].value == manifest.manifest.num_samples
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
                    if not entry.endswith(("real_time", "busy_share"))
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
    assert [name for name in request.tags if name.startswith("headrace/work")] == work_tags(1)
    assert FIRST_PARTITION_TAG not in request.tags
    assert built.run(request).success
    assert built.settle() == []


@pytest.mark.parametrize("error", [BuildError("cannot be read"), ZeroDivisionError("a bug")])
def test_a_partition_that_fails_leaves_the_others_materialized_and_checked(daemon, monkeypatch, error):
    failing(monkeypatch, error)
    first, _ = daemon.tick("stale_partitions")
    assert not daemon.run(first).success
    done = set(LAYOUT[:4]) - {BAD}
    assert {name for name, events in events_of(daemon, "audio_shards").items() if events} == done
    assert passed(daemon, "audio_shards") == done
    message = last_failure(daemon)
    assert message.startswith("1 of 4 partitions failed:\n")
    assert f"{BAD}: " in message
    assert str(error) in message
    assert not any(partition in message for partition in done)
    rest = PARTITIONED[1:]
    assert asked_for(daemon) == [(BEFORE, rest), (BEHIND, rest), (tuple(LAYOUT[4:]), PARTITIONED)]


def test_the_next_tick_builds_on_what_is_done_and_retries_the_failed_partition_alone(daemon, monkeypatch):
    repair = failing(monkeypatch, BuildError("cannot be read"))
    for request in daemon.tick("stale_partitions"):
        daemon.run(request)
    rest = PARTITIONED[1:]
    assert asked_for(daemon) == [(BEFORE, rest), (BEHIND, rest)]
    without_patience(monkeypatch)
    assert ((BAD,), PARTITIONED) in asked_for(daemon)
    repair()
    made = daemon.settle()
    assert all(run.success for run in made)
    assert [run.partition for run in made if "audio_shards" in run.assets] == [BAD]
    assert [count(made, name) for name in LAST] == [1] * len(LAST)
    assert all(len(events_of(daemon, "audio_shards")[name]) == 1 for name in LAYOUT)


@pytest.mark.slow
def test_a_partition_that_fails_on_and_on_rests_after_the_usual_attempts(daemon, monkeypatch):
    failing(monkeypatch, BuildError("cannot be read"))
    without_patience(monkeypatch)
    made = daemon.settle()
    attempts = [run for run in made if not run.success]
    assert [run.partition for run in attempts] == [None, BAD, BAD]  # in a group, then alone, as often as ever
    assert f"{BAD}: resting" in daemon.reasons["stale_partitions"]
    assert not any(run.success and "sizes_index" in run.assets for run in made)
    assert {name for name, events in events_of(daemon, "mel_latent_shards").items() if events} == {*LAYOUT} - {BAD}


def test_a_process_that_dies_costs_only_what_was_not_done(daemon, monkeypatch):
    """The unfinished partitions are tried again, each in a run of its own: one of them may kill its process again."""
    failing(monkeypatch, dg.DagsterExecutionInterruptedError())
    first, _ = daemon.tick("stale_partitions")
    daemon.run(first)
    assert passed(daemon, "audio_shards") == set(BEFORE)
    without_patience(monkeypatch)
    wanted = asked_for(daemon)
    assert (BEFORE, PARTITIONED[1:]) in wanted
    assert ((BAD,), PARTITIONED) in wanted
    assert (BEHIND, PARTITIONED) in wanted


def test_a_failed_check_blocks_its_own_partition_and_no_other(daemon, monkeypatch):
    with monkeypatch.context() as patch:
        fail_index_check(patch, BAD)
        first, second = daemon.tick("stale_partitions")
        assert not daemon.run(first).success
        assert daemon.run(second).success
    assert passed(daemon, "audio_shards") == set(LAYOUT) - {BAD}
    assert f"{BAD}: check index_matches_tar failed: a.tar: made up" in last_failure(daemon)
    wanted = asked_for(daemon)
    assert wanted == [(BEFORE, PARTITIONED[1:]), (BEHIND, PARTITIONED[1:])]
    result = daemon.job.execute_in_process(  # somebody asks for the latents of all four
        instance=daemon.instance,
        asset_selection=[key("mel_latent_shards")],
        tags={FIRST_PARTITION_TAG: LAYOUT[0], LAST_PARTITION_TAG: LAYOUT[3]},
        raise_on_error=False,
    )
    assert not result.success
    assert {name for name, events in events_of(daemon, "mel_latent_shards").items() if events} == set(LAYOUT) - {BAD}
    assert "checks failed" in last_failure(daemon)


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
    assert all(one.metadata["shards_read"].value == one.metadata["shards"].value for one in found.values())


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


@pytest.mark.slow
def test_a_failed_run_of_several_is_forgotten_once_all_of_it_was_made(daemon, monkeypatch):
    daemon.project.write_yaml(schedules={"history": {"days": 1, "keep": 0}})
    daemon.reload()
    dataset, much_later = daemon.project.dataset(), 4e9
    repair = failing(monkeypatch, BuildError("cannot be read"), *LAYOUT[:4])
    without_patience(monkeypatch)
    first, second = daemon.tick("stale_partitions")
    daemon.run(first)
    (failed,) = daemon.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    repair()
    retries = daemon.tick("stale_partitions")
    assert daemon.run(second).success
    for request in retries[:3]:
        assert daemon.run(request).success
        assert failed.run_id not in forgettable_runs(daemon.instance, dataset, much_later)
    assert daemon.run(retries[3]).success
    assert failed.run_id in forgettable_runs(daemon.instance, dataset, much_later)


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


def test_the_encoder_is_released_if_the_last_partition_fails_before_its_work(daemon, monkeypatch):
    loaders, done = set(), []
    loading, gate = EncoderLoader.load, latent_assets.pass_shards
    monkeypatch.setattr(EncoderLoader, "load", lambda self, config: loaders.add(self) or loading(self, config))

    def fail_at_the_second(instance, key, partitions):
        done.append(partitions)
        if len(done) % 2 == 0:
            raise dg.Failure("not yet")
        gate(instance, key, partitions)

    monkeypatch.setattr(latent_assets, "pass_shards", fail_at_the_second)
    requests = daemon.tick("stale_partitions")
    assert not daemon.run(requests[0]).success
    assert len(done) == 4
    assert [loader._loaded for loader in loaders] == [None]


def test_more_partitions_per_run_than_a_tick_starts_are_an_error():
    with pytest.raises(
        ValueError, match=r"partitions_per_run is 9: expected at most per_tick \(8\) and in_flight \(16\)"
    ):
        RunsConfig(partitions_per_run=9)
    assert RunsConfig(partitions_per_run=9, per_tick=9).partitions_per_run == 9
