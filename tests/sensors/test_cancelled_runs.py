"""Cancelled work is not started again until its input changes or somebody starts it."""

import dagster as dg
import pytest

from headrace.assemble.waves import Attempts
from headrace_dagster.assets.tags import DATASET_TAG, PARTITION_TAG, WORK_TAG, range_tags, work_tags
from headrace_dagster.sensors.activity import with_run
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]
WAITS = "cancelled: waits until its input changes or somebody starts it"
LAST = dg.AssetKey(["tones", "sizes_index"])
AUDIO = dg.AssetKey(["tones", "audio_shards"])


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("cancelled"))
    project.write_tones(4)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 2, "partitions": {"train": 2}})
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def change(daemon, hz):
    """Both recordings of a partition have changed, and the source has been scanned again."""
    daemon.project.write_tone("tone001", hz=hz)
    (scan,) = daemon.tick("source_changes")
    assert daemon.run(scan).success


def cancel(daemon, assets, tags):
    run = daemon.instance.create_run_for_job(daemon.job, tags=tags, asset_selection=set(assets))
    daemon.instance.report_run_canceled(run)


def tags_of(request):
    return {**request.tags, **({PARTITION_TAG: request.partition_key} if request.partition_key else {})}


def by_the_sensor(daemon, request):
    cancel(daemon, request.asset_selection, tags_of(request))


def by_hand(daemon, request):
    cancel(daemon, [AUDIO], {PARTITION_TAG: request.partition_key})


def by_hand_of_all_partitions(daemon, request):
    cancel(daemon, [AUDIO], range_tags(daemon.config.partitioning().partition_keys()))


def started_again_by_hand(daemon, request):
    """The button *Re-execute* copies the tags."""
    by_the_sensor(daemon, request)
    by_the_sensor(daemon, request)


@pytest.mark.parametrize("how", [by_the_sensor, by_hand, by_hand_of_all_partitions, started_again_by_hand])
def test_a_cancelled_partition_waits(daemon, how):
    daemon.project.write_yaml(runs={"partitions_per_run": 2})
    daemon.reload()
    change(daemon, 999)
    (request,) = daemon.tick("stale_partitions")
    how(daemon, request)
    for _ in range(3):
        assert daemon.tick("stale_partitions") == []
        assert f"{request.partition_key}: {WAITS}" in daemon.reasons["stale_partitions"]
    daemon.restart()
    assert daemon.tick("stale_partitions") == []


@pytest.mark.parametrize("how", [by_the_sensor, by_hand])
def test_a_change_of_its_input_starts_it(daemon, how):
    change(daemon, 999)
    (request,) = daemon.tick("stale_partitions")
    how(daemon, request)
    assert daemon.tick("stale_partitions") == []
    change(daemon, 1001)
    (again,) = daemon.tick("stale_partitions")
    assert again.partition_key == request.partition_key


def test_a_run_that_somebody_starts_ends_the_wait(daemon):
    change(daemon, 999)
    (request,) = daemon.tick("stale_partitions")
    by_the_sensor(daemon, request)
    assert daemon.settle() == []
    assert daemon.run(dg.RunRequest(asset_selection=[AUDIO], partition_key=request.partition_key)).success
    assert daemon.settle() != []
    assert daemon.reasons["stale_partitions"] == "up to date"


def test_a_cancelled_closing_run_waits(daemon):
    change(daemon, 999)
    (request,) = daemon.tick("stale_partitions")
    parts = [key for key in request.asset_selection if "index" not in key.path[-1]]
    made = [key for key in parts if key.path[-1] in {"audio_shards", "metadata_columns"}]
    assert daemon.run(dg.RunRequest(asset_selection=made, partition_key=request.partition_key)).success
    (closing,) = daemon.tick("stale_partitions")
    assert LAST in closing.asset_selection
    by_the_sensor(daemon, closing)
    assert daemon.tick("stale_partitions") == []
    assert daemon.reasons["stale_partitions"] == f"finish: {WAITS}"


SCAN = dg.AssetKey(["tones", "catalog"])


def scan_by_hand(daemon, _):
    cancel(daemon, [SCAN], {})


def scan_by_the_schedule(daemon, _):
    cancel(daemon, [SCAN], {DATASET_TAG: "tones"})


def scan_and_snapshot_by_hand(daemon, _):
    cancel(daemon, [SCAN, LAST], {})


def scan_and_partition_by_hand(daemon, _):
    cancel(daemon, [SCAN, AUDIO], {PARTITION_TAG: "train-0000"})


def everything_by_hand(daemon, _):
    run = daemon.instance.create_run_for_job(daemon.job)
    assert run.asset_selection is None
    daemon.instance.report_run_canceled(run)


def scan_by_a_job_of_the_project(daemon, _):
    """A job that somebody defined for the asset: its runs name no selection."""
    graph = daemon.definitions.resolve_asset_graph()
    job = dg.define_asset_job("nightly", selection=[SCAN]).resolve(graph, resource_defs=daemon.job.resource_defs)
    run = daemon.instance.create_run_for_job(job)
    assert run.asset_selection is None
    daemon.instance.report_run_canceled(run)


SCANS = [
    *(by_the_sensor, started_again_by_hand, scan_by_hand, scan_by_the_schedule, scan_and_snapshot_by_hand),
    *(scan_and_partition_by_hand, everything_by_hand, scan_by_a_job_of_the_project),
]


@pytest.mark.parametrize("how", SCANS)
def test_a_cancelled_scan_waits_until_the_source_changes(daemon, how):
    daemon.project.write_tone("tone001", hz=999)
    (request,) = daemon.tick("source_changes")
    how(daemon, request)
    daemon.tick("stale_partitions")  # notes the work of the other assets of the run
    assert daemon.tick("source_changes") == []
    assert daemon.reasons["source_changes"] == f"the scan was {WAITS}"
    daemon.project.write_tone("tone002", hz=999)
    assert len(daemon.tick("source_changes")) == 1


@pytest.mark.parametrize("how", SCANS[2:])
def test_a_scan_that_was_cancelled_when_nothing_had_changed_holds_nothing(daemon, how):
    assert daemon.tick("source_changes") == []
    how(daemon, None)
    assert daemon.tick("source_changes") == []
    daemon.project.write_tone("tone001", hz=999)
    assert len(daemon.tick("source_changes")) == 1


def test_a_scan_that_somebody_starts_ends_the_wait(daemon):
    daemon.project.write_tone("tone001", hz=999)
    daemon.tick("source_changes")
    scan_by_hand(daemon, None)
    assert daemon.tick("source_changes") == []
    assert daemon.run(dg.RunRequest(asset_selection=[SCAN])).success
    assert daemon.tick("source_changes") == []
    assert daemon.reasons["source_changes"] == "no change"


def test_a_scan_of_another_data_set_holds_nothing(daemon):
    daemon.project.write_tone("tone001", hz=999)
    run = daemon.instance.create_run_for_job(daemon.job, asset_selection={SCAN})
    others = dg.AssetKey(["birds", "catalog"])
    daemon.instance.report_run_canceled(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace_dagster.sensors.cancelled_runs.assets_of", lambda *_: frozenset({others}))
        assert len(daemon.tick("source_changes")) == 1


def test_runs_that_were_cancelled_before_the_change_hold_nothing(daemon):
    cancel(daemon, [AUDIO], {PARTITION_TAG: "train-0000"})
    cancel(daemon, [AUDIO], {PARTITION_TAG: "train-0001"})
    assert daemon.tick("stale_partitions") == []
    change(daemon, 999)
    assert len(daemon.tick("stale_partitions")) == 1


def test_a_run_by_hand_that_was_cancelled_long_ago_holds_nothing(daemon, monkeypatch):
    change(daemon, 999)
    monkeypatch.setattr("headrace_dagster.sensors.cancelled_runs._RECENT_SECONDS", -1.0)
    (request,) = daemon.tick("stale_partitions")
    by_hand(daemon, request)
    assert len(daemon.tick("stale_partitions")) == 1


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("runs", "attempts"),
    [
        ([(30.0, False), (5.0, True)], Attempts(1, 5.0, is_cancelled=True)),
        ([(30.0, True), (5.0, False)], Attempts(1, 5.0)),
        ([(9.0, True)], Attempts(0, 9.0, is_cancelled=True)),
    ],
)
def test_the_last_run_of_some_work_decides_whether_it_waits(runs, attempts, order):
    found = Attempts(0, float("inf"))
    for seconds, is_cancelled in runs[::order]:
        found = with_run(found, seconds, is_cancelled=is_cancelled)
    assert found == attempts


def test_each_partition_of_a_cancelled_run_has_its_own_token(daemon):
    change(daemon, 999)
    (request,) = daemon.tick("stale_partitions")
    by_hand_of_all_partitions(daemon, request)
    daemon.tick("stale_partitions")
    (run,) = daemon.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED]))
    layout = daemon.config.partitioning().partition_keys()
    found = {name: run.tags[tag] for name, tag in zip(layout, work_tags(2), strict=True)}
    assert found.pop(request.partition_key) == request.tags[WORK_TAG]
    assert len(set(found.values())) == 1  # the checks of the other partition were planned, and did not run
    assert request.tags[WORK_TAG] not in found.values()
