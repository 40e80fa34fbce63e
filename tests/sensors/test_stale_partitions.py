"""Requests and messages of a tick of `stale_partitions`, and the content of its cursor."""

from types import SimpleNamespace

import dagster as dg
import pytest

from headrace.assemble.waves import Attempts, PartitionWork
from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import DATASET_TAG, INPUT_TAG, REASON_TAG, WORK_TAG
from headrace_dagster.sensors import stale_partitions
from headrace_dagster.sensors.activity import ActiveRun
from headrace_dagster.sensors.due_work import DueWork
from headrace_dagster.sensors.missing_shards import SensorState
from tests.support.instances import memory_instance

DATASET = ProjectDataset.named(DatasetConfig(name="birds", source={"uri": "a"}, output={"uri": "b"}))
KEYS = DATASET.keys
FINISH = (KEYS.sizes_index, KEYS.dataset_report)
NOTHING = DueWork({})
TAGS = {DATASET_TAG: "birds", INPUT_TAG: "input o"}


def work(token="t", reason=None):
    return PartitionWork(("audio",), token, reason)


class FakeReader:
    """A data set and its runs: in place of `DueWorkReader`, of the look for missing shards, and of the instance."""

    def __init__(self):
        self.due, self.runs, self.pending, self.attempts, self.missing = NOTHING, [], [], {}, {}
        self.failed, self.held, self.newest, self.digest, self.num_read = [], None, "run1", "o", 0
        self.keys, self.config, self.cursor = KEYS, DATASET.config, None
        self.records = SimpleNamespace(instance=None, sound_since=lambda key: 0.0)

    def outline(self):
        return self.digest

    def input_version(self):
        return f"input {self.digest}"

    def folders(self):
        return {"audio": None, "columns metadata": None}

    def read(self, missing):
        self.num_read += 1
        return self.due

    def assets_of(self, stages):
        return [KEYS.audio_shards if stage == "audio" else dg.AssetKey(["birds", stage]) for stage in stages]

    def last_assets(self):
        return list(FINISH)

    def looked(self, state, *_):
        return SensorState(state.mark, missing=self.missing)

    def why_held(self, config):
        return self.held


@pytest.fixture(scope="module")
def instance():
    return memory_instance()


@pytest.fixture
def project(instance, monkeypatch):
    fake = FakeReader()
    replaced = {
        "DueWorkReader": lambda *_: fake,
        "AssetRecords": lambda *_: None,
        "active_runs": lambda *_: fake.runs,
        "pending_runs": lambda *_: fake.pending,
        "newest_run": lambda _: fake.newest,
        "failed_catalog": lambda *_: fake.failed,
        "attempts_at": lambda _, tokens, *_most, **_since: {
            token: found for token, found in fake.attempts.items() if token in tokens
        },
    }
    for name, value in replaced.items():
        monkeypatch.setattr(stale_partitions, name, value)
    monkeypatch.setattr(SensorState, "looked", lambda state, *_: fake.looked(state))
    sensor = stale_partitions.stale_partitions_sensor(DATASET, None, fake)

    def tick():
        """One tick: the requested runs, or the reason why there are none."""
        context = dg.build_sensor_context(instance=instance, cursor=fake.cursor, definitions=dg.Definitions())
        result = sensor(context)
        fake.cursor = result.cursor
        return result.run_requests or result.skip_reason.skip_message

    fake.tick, fake.sensor = tick, sensor
    return fake


def test_the_sensor_is_named_after_the_data_set_and_runs_by_default(project):
    assert project.sensor.name == "birds_stale_partitions"
    assert project.sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_what_is_up_to_date_is_read_again_when_something_changed_or_shards_are_missing(project):
    for number, change in enumerate([{}, {"digest": "o2"}, {"newest": "run2"}, {"missing": {"audio p": 1.0}}], 1):
        vars(project).update(change)
        for _ in range(2):
            assert project.tick() == "up to date"
        assert project.num_read == number + ("missing" in change)  # while shards are missing, at each tick


def test_work_that_is_due_is_read_at_every_tick(project):
    project.due = DueWork({"p": work()})
    for number in range(1, 3):
        assert project.tick()
        assert project.num_read == number


def test_a_partition_alone_is_one_run_with_all_that_follows(project):
    project.due = DueWork({"p": work(reason="shards missing")}, finish=FINISH)
    (request,) = project.tick()
    assert request.asset_selection == [KEYS.audio_shards, *FINISH]
    assert request.partition_key == "p"
    assert request.tags == {**TAGS, WORK_TAG: "t", REASON_TAG: "shards missing"}


def test_several_partitions_are_a_run_each_and_what_follows_is_another(project):
    project.due = DueWork({"p": work("t1"), "q": work("t2")}, finish=FINISH)
    requests = project.tick()
    assert [(request.partition_key, request.asset_selection) for request in requests] == [
        ("p", [KEYS.audio_shards]),
        ("q", [KEYS.audio_shards]),
    ]
    assert [request.tags for request in requests] == [{**TAGS, WORK_TAG: token} for token in ("t1", "t2")]
    project.due = DueWork({}, finish=FINISH, token="last")
    (request,) = project.tick()
    assert (request.asset_selection, request.partition_key) == (list(FINISH), None)
    assert request.tags == {**TAGS, WORK_TAG: "last"}


def running(*keys, partition=None):
    return ActiveRun(frozenset(keys), (partition,) if partition else (), 5.0)


@pytest.mark.parametrize("where", ["runs", "pending"])
@pytest.mark.parametrize(
    ("run", "started"),
    [
        (running(KEYS.audio_shards, partition="p"), ["q"]),
        (running(KEYS.audio_shards, partition="other"), ["p", "q"]),
        (running(KEYS.audio_shards), []),
        (running(dg.AssetKey(["birds", "columns metadata"]), partition="p"), ["q"]),
        (running(KEYS.catalog), []),
        (running(KEYS.loader_smoke_test), ["p", "q"]),
    ],
)
def test_partitions_of_runs_in_progress_are_not_started_again(project, where, run, started):
    project.due = DueWork({"p": work("t1"), "q": work("t2")}, finish=FINISH)
    setattr(project, where, [run])
    found = project.tick()
    if started:
        assert [request.partition_key for request in found] == started
    else:
        assert found == "p: running; q: running"


def test_the_last_run_waits_for_one_like_it(project):
    project.due = DueWork({}, finish=FINISH, token="last")
    project.runs = [running(KEYS.sizes_index)]
    assert project.tick() == "finish: running"


def test_failed_work_is_named_with_its_reason_and_ten_partitions_at_most(project):
    project.due = DueWork({f"p{number:02d}": work(f"t{number}", "shards missing") for number in range(12)})
    project.attempts = {f"t{number}": Attempts(1, 0.0) for number in range(12)}
    said = project.tick().split("; ")
    assert said == [f"p{number:02d}: backing off (shards missing)" for number in range(10)]
    project.due = DueWork({"p00": work("t0")})
    assert project.tick() == "p00: backing off"


def test_nothing_starts_before_a_scan_after_a_failed_check_or_while_held(project):
    project.due = None
    assert project.tick() == "waiting for a scan of the source"
    project.due, project.failed, project.held = DueWork({"p": work()}), ["fits", "drift"], "held back: tones.yaml"
    assert project.tick() == "held back: the catalog failed its checks: fits, drift"
    project.failed = []
    assert project.tick() == "held back: tones.yaml"
    project.held = None
    assert len(project.tick()) == 1
