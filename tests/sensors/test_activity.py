"""Conclusions of sensors from records of runs: which are in progress, which died, and which were tried before."""

import os
import socket
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import psutil
import pytest

from headrace.assemble.waves import Attempts
from headrace_dagster.assets.tags import (
    ASSET_JOB,
    DATASET_TAG,
    HOST_TAG,
    PARTITION_TAG,
    SUPERSEDED_TAG,
    WORK_TAG,
    partition_label,
    range_tags,
    work_tags,
)
from headrace_dagster.resources.dagster_internals.run_processes import RunProcess
from headrace_dagster.sensors import activity, dead_runs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = dg.AssetKey(["demo", "catalog"])
DEMO = SimpleNamespace(name="demo", partitions=dg.StaticPartitionsDefinition([f"train-{i:04d}" for i in range(4)]))
STARTED, STARTING, QUEUED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.QUEUED


def record(run_id="r", *, seconds=0.0, ended=None, status=STARTED, job="job", assets=None, **tags):  # noqa: PLR0913
    """A run that was created and updated this long ago; Dagster's times have no time zone."""
    at = (NOW - timedelta(seconds=seconds)).replace(tzinfo=None)
    run = SimpleNamespace(
        run_id=run_id, status=status, job_name=job, asset_selection=assets, tags=tags, partitions_subset=None
    )
    return SimpleNamespace(dagster_run=run, create_timestamp=at, update_timestamp=at, end_time=ended)


class FakeInstance:
    """Answers every question about runs with the same records; remembers the questions and the failed runs."""

    def __init__(self, *records, launcher=None):
        self.records, self.asked, self.failed, self.canceled, self.tagged = records, [], {}, [], {}
        self.run_coordinator = SimpleNamespace(cancel_run=self.canceled.append)
        self.run_launcher = launcher or dg.DefaultRunLauncher()

    def get_run_records(self, filters=None, limit=None):
        self.asked.append((filters, limit))
        return list(self.records)[:limit]

    def all_logs(self, run_id, of_type):
        assert of_type is dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
        event = SimpleNamespace(asset_key=KEY)
        return [SimpleNamespace(get_dagster_event=lambda: event)] if run_id == "of a job of somebody" else []

    def add_run_tags(self, run_id, tags):
        self.tagged[run_id] = tags

    def report_run_failed(self, run, message):
        self.failed[run.run_id] = message


def test_a_run_makes_its_assets_or_all():
    other = dg.AssetKey("other")
    assert activity.ActiveRun(None, (), 0).makes([KEY])
    assert activity.ActiveRun(frozenset({KEY}), (), 0).makes([KEY, other])
    assert not activity.ActiveRun(frozenset({other}), (), 0).makes([KEY])


@pytest.mark.parametrize(
    ("job", "selection", "assets"),
    [
        (ASSET_JOB, None, None),
        (ASSET_JOB, {KEY}, frozenset({KEY})),
        ("demo_verify", None, frozenset()),
        ("demo_refresh", {KEY}, frozenset({KEY})),
    ],
)
def test_runs_in_progress_are_all_but_the_dead_ones(monkeypatch, job, selection, assets):
    own = {DATASET_TAG: "demo", PARTITION_TAG: "train-0000"}
    records = [
        record("alive", seconds=30, job=job, assets=selection, **own),
        record("dead", **own),
        record("foreign", **{DATASET_TAG: "other"}),
    ]
    checked = []
    monkeypatch.setattr(
        activity, "bury_dead_runs", lambda _, runs, now: checked.extend(r.dagster_run.run_id for r in runs) or {"dead"}
    )
    found, foreign = activity.active_runs(FakeInstance(*records), DEMO)
    assert checked == ["alive", "dead"]
    assert (found.assets, found.partitions) == (assets, ("train-0000",))
    assert found.seconds - foreign.seconds == pytest.approx(30, abs=1)
    assert foreign.seconds == pytest.approx((datetime.now(UTC) - NOW).total_seconds(), abs=60)


@pytest.mark.parametrize(
    ("tags", "partitions", "label"),
    [
        ({}, (), ""),
        ({PARTITION_TAG: "train-0002"}, ("train-0002",), "train-0002"),
        (
            range_tags(("train-0001", "train-0003")),
            ("train-0001", "train-0002", "train-0003"),
            "train-0001 … train-0003",
        ),
        (range_tags(("train-0001",)), ("train-0001",), "train-0001"),  # Dagster's backfills give one partition so
        (range_tags(("train-0002", "train-0009")), ("train-0002", "train-0009"), "train-0002 … train-0009"),
    ],
)
def test_the_partitions_of_a_run_are_those_of_its_tags(monkeypatch, tags, partitions, label):
    monkeypatch.setattr(activity, "bury_dead_runs", lambda *_: set())
    (found,) = activity.active_runs(FakeInstance(record(**{DATASET_TAG: "demo"}, **tags)), DEMO)
    assert found.partitions == partitions
    assert partition_label(record(**tags).dagster_run) == label


def test_a_run_of_a_job_of_somebody_makes_what_it_has_planned(monkeypatch):
    monkeypatch.setattr(activity, "bury_dead_runs", lambda *_: set())
    instance = FakeInstance(record("of a job of somebody", job="nightly"), record("verify", job="demo_verify"))
    assert [run.assets for run in activity.active_runs(instance, DEMO)] == [frozenset({KEY}), frozenset()]


def test_queued_runs_of_partitions_that_the_yaml_no_longer_has_are_cancelled():
    own = {DATASET_TAG: "demo"}
    instance = FakeInstance(
        record("gone", status=QUEUED, **own, **{PARTITION_TAG: "train-0009"}),
        record("half gone", status=QUEUED, **own, **range_tags(("train-0002", "train-0009"))),
        record("there", status=QUEUED, **own, **{PARTITION_TAG: "train-0001"}),
        record("closing", status=QUEUED, **own),
        record("of others", status=QUEUED, **{DATASET_TAG: "other", PARTITION_TAG: "train-0009"}),
    )
    assert [run.partitions for run in activity.active_runs(instance, DEMO)] == [("train-0001",), (), ("train-0009",)]
    assert instance.canceled == list(instance.tagged) == ["gone", "half gone"]


def test_a_superseded_run_was_no_attempt():
    class Tagged(FakeInstance):
        def get_run_records(self, filters=None, limit=None):
            return list(self.records)

    success, failure = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE
    superseded = record(ended=time.time(), status=success, **{WORK_TAG: "a", SUPERSEDED_TAG: "the input changed"})
    assert activity.attempts_at(Tagged(superseded), ["a"]) == {}
    failed = record(ended=time.time(), status=failure, **{WORK_TAG: "a", SUPERSEDED_TAG: "the input changed"})
    assert activity.attempts_at(Tagged(failed), ["a"])["a"].count == 1


def test_attempts_of_runs_of_several_partitions_count_for_each_token():
    class Tagged(FakeInstance):
        def get_run_records(self, filters=None, limit=None):
            ((tag, tokens),) = filters.tags.items()
            return [r for r in self.records if r.dagster_run.tags.get(tag) in tokens]

    first, second = work_tags(2)
    now = time.time()
    instance = Tagged(record(ended=now, **{first: "a", second: "b"}), record(ended=now, **{first: "b"}))
    assert {
        token: found.count for token, found in activity.attempts_at(instance, ["a", "b"], work_tags(2)).items()
    } == {
        "a": 1,
        "b": 2,
    }
    assert {token: found.count for token, found in activity.attempts_at(instance, ["a", "b"]).items()} == {
        "a": 1,
        "b": 1,
    }


def test_attempts_are_counted_by_token_with_the_time_since_the_last(monkeypatch):
    now = time.time()
    late = record(seconds=-(now - 500 - NOW.timestamp()), **{WORK_TAG: "b"})  # without an end: when it was updated
    instance = FakeInstance(
        record(ended=now - 100, **{WORK_TAG: "a"}), record(ended=now - 300, **{WORK_TAG: "a"}), late
    )
    found = activity.attempts_at(instance, ["a", "b", "c"])
    assert {token: attempts.count for token, attempts in found.items()} == {"a": 2, "b": 1}
    assert found["a"].seconds_since_last == pytest.approx(100, abs=30)
    assert found["b"].seconds_since_last == pytest.approx(500, abs=30)
    ((filters, limit),) = instance.asked
    assert filters.tags == {WORK_TAG: ["a", "b", "c"]}
    assert limit == 5000
    assert isinstance(found["a"], Attempts)


def test_a_run_is_an_attempt_at_assets_that_it_was_to_make_and_that_were_not_sound_since():
    view, report = dg.AssetKey(["demo", "a_view"]), dg.AssetKey(["demo", "dataset_report"])
    began = NOW.timestamp()
    instance = FakeInstance(record(ended=began + 9, assets={report}, **{WORK_TAG: "a"}))
    for sound_since, count in [
        ({report: began - 1}, 1),
        ({report: began + 1}, 0),
        ({report: began + 1, view: 0.0}, 0),
        ({report: 0.0, view: 0.0}, 1),
    ]:
        found = activity.attempts_at(instance, ["a"], sound_since=sound_since)
        assert sum(attempts.count for attempts in found.values()) == count


@pytest.mark.parametrize(("num_runs", "seconds_ago", "count"), [(6, 60, 0), (8, 60, 2), (8, 6000, 0)])
def test_work_that_is_done_again_and_again_and_never_sound_for_the_daemon_is_not_repeated_for_ever(
    num_runs, seconds_ago, count
):
    report = dg.AssetKey(["demo", "dataset_report"])
    ended = datetime.now(UTC).timestamp() - seconds_ago
    runs = [record(str(run), ended=ended, assets={report}, **{WORK_TAG: "a"}) for run in range(num_runs)]
    found = activity.attempts_at(FakeInstance(*runs), ["a"], sound_since={report: NOW.timestamp() + 1e9})
    assert sum(attempts.count for attempts in found.values()) == count


def test_without_tokens_nobody_is_asked():
    instance = FakeInstance(record())
    assert activity.attempts_at(instance, []) == {}
    assert instance.asked == []


def test_the_newest_run_and_those_in_progress_are_named_with_their_status():
    instance = FakeInstance(record("b"), record("a", status=QUEUED))
    assert activity.newest_run(instance) == "b STARTED b STARTED a QUEUED"


@pytest.fixture
def freed(monkeypatch):
    """Runs whose pool slots were freed."""
    freed = []
    monkeypatch.setattr(dead_runs, "free_pool_slots", lambda instance, run_id: freed.append(run_id))
    return freed


def buried(records, process=None, launcher=None):
    """Messages of the runs that are marked as failed, of which `process` was seen."""
    instance = FakeInstance(*records, launcher=launcher)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dead_runs, "run_process", lambda instance, run_id: process)
        assert dead_runs.bury_dead_runs(instance, list(records), NOW) == set(instance.failed)
    return instance.failed


def process_of(pid, seconds=0.0):
    """The process `pid`, seen this long after this one began."""
    return RunProcess(pid, psutil.Process().create_time() + seconds)


GONE = 2**22 + 1  # above the largest process number


def test_a_run_whose_process_is_gone_is_marked_failed_and_its_slots_are_freed(freed):
    failed = buried([record("a"), record("b", status=QUEUED)], process_of(GONE))
    assert failed == {"a": f"the process of this run (pid {GONE}) is gone; it was killed or the machine restarted"}
    assert freed == ["a"]


def test_a_run_whose_process_lives_is_left_alone(freed):
    assert buried([record("a")], process_of(os.getpid())) == {}
    assert freed == []


@pytest.mark.parametrize(("seconds", "is_other"), [(-59.5, False), (-60.5, True)])
def test_a_process_that_began_a_minute_after_it_was_seen_is_another_one(freed, seconds, is_other):
    assert bool(buried([record("a")], process_of(os.getpid(), seconds))) == is_other


def test_a_zombie_does_not_live(freed):
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert buried([record("a")], process_of(child, 10**6))
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("status", "seconds", "is_dead"),
    [(STARTING, 61, True), (STARTING, 60, False), (STARTED, 10**6, False), (QUEUED, 10**6, False)],
)
def test_a_run_without_a_process_is_dead_a_minute_after_its_launch(freed, status, seconds, is_dead):
    failed = buried([record("a", status=status, seconds=seconds)])
    assert failed == ({"a": "no process of this run was seen 61 s after it was launched"} if is_dead else {})


@pytest.mark.parametrize(("host", "is_dead"), [(socket.gethostname(), True), ("elsewhere", False)])
def test_only_runs_of_this_machine_are_checked(freed, host, is_dead):
    assert bool(buried([record("a", **{HOST_TAG: host})], process_of(GONE))) == is_dead


def test_runs_of_another_launcher_are_left_alone(freed):
    assert buried([record("a")], process_of(GONE), launcher=object()) == {}
