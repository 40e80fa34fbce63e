"""Failures in a run of several partitions: what is done stays, and what failed is tried again alone."""

import dagster as dg
import pytest

import headrace_dagster.assets.audio_shards as audio_assets
import headrace_dagster.assets.latent_shards as latent_assets
import tests.support.daemons
from headrace.assemble.waves import RunPatience
from headrace.errors import BuildError
from headrace_dagster.assets.checks import ShardChecks
from headrace_dagster.assets.history import forgettable_runs
from headrace_dagster.assets.tags import (
    FIRST_PARTITION_TAG,
    LAST_PARTITION_TAG,
)
from headrace_dagster.resources.encoders import EncoderLoader
from tests.support.built import SettledDaemon
from tests.support.daemons import count
from tests.support.failing_checks import fail_index_check
from tests.support.several import (
    LAST,
    LAYOUT,
    PARTITIONED,
    asked_for,
    events_of,
    key,
    passed,
    scanned_daemon,
)
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]

BAD, BEFORE, BEHIND = LAYOUT[2], tuple(LAYOUT[:2]), tuple(LAYOUT[3:4])
"""The third of the four partitions of the first run fails."""


@pytest.fixture(scope="module")
@nothing_drawn()
def scanned(tmp_path_factory):
    return SettledDaemon(scanned_daemon(tmp_path_factory.mktemp("several")))


@pytest.fixture
def daemon(scanned):
    return scanned.put_back()


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
    monkeypatch.setattr(tests.support.daemons, "_PATIENCE", RunPatience((0.0, 0.0)))


def last_failure(daemon) -> str:
    """The message of the failed step of the newest failed run."""
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    (run,) = daemon.instance.get_runs(failed, limit=1)
    (entry,) = daemon.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return entry.get_dagster_event().step_failure_data.user_failure_data.description


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


def test_the_encoder_is_released_if_the_last_partition_fails_before_its_work(daemon, monkeypatch):
    loaders, loading, gate = set(), EncoderLoader.load, latent_assets.pass_shards
    monkeypatch.setattr(EncoderLoader, "load", lambda self, *given: loaders.add(self) or loading(self, *given))

    def hold_back_the_last(instance, key, partitions):
        if partitions == [LAYOUT[3]]:
            raise dg.Failure("not yet")
        gate(instance, key, partitions)

    monkeypatch.setattr(latent_assets, "pass_shards", hold_back_the_last)
    assert not daemon.run(daemon.tick("stale_partitions")[0]).success
    assert [loader._loaded for loader in loaders] == [[]]


@pytest.mark.parametrize(("severity", "is_failure"), [("WARN", False), ("ERROR", True)])
def test_a_check_that_only_warns_does_not_fail_its_partition(daemon, monkeypatch, severity, is_failure):
    made = ShardChecks._results

    def results(self, storage, partition, compared):
        for result in made(self, storage, partition, compared):
            yield result._replace(passed=False, severity=dg.AssetCheckSeverity[severity])

    monkeypatch.setattr(ShardChecks, "_results", results)
    result = daemon.job.execute_in_process(
        instance=daemon.instance,
        asset_selection=[key("audio_shards")],
        tags={FIRST_PARTITION_TAG: LAYOUT[0], LAST_PARTITION_TAG: LAYOUT[3]},
        raise_on_error=False,
    )
    assert result.success != is_failure
