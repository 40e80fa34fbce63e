"""Which alerts are sent about runs that ended, what they say, and what becomes of those that cannot be delivered."""

import json
from types import SimpleNamespace

import dagster as dg
import pytest

from headrace.alerts.alerts import EVERYWHERE, AlertChannel
from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import DATASET_TAG, PARTITION_TAG, range_tags
from headrace_dagster.sensors import alerts
from tests.support.instances import memory_instance

FAILURE, SUCCESS = dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS
STATUSES = {FAILURE: dg.DagsterRunStatus.FAILURE, SUCCESS: dg.DagsterRunStatus.SUCCESS}
BIRDS, WHALES = (
    ProjectDataset.named(DatasetConfig(name=name, source={"uri": "a"}, output={"uri": "b"}, alerts={"webhook": name}))
    for name in ("birds", "whales")
)


def check(name="fits", *, passed=False, description=None, partition=None):
    key = dg.AssetKey(["birds", "catalog"])
    return SimpleNamespace(check_name=name, asset_key=key, passed=passed, description=description, partition=partition)


def step(message=None, ours=None):
    error = message and SimpleNamespace(message=f"{message}\n")
    return SimpleNamespace(error=error, user_failure_data=ours and SimpleNamespace(description=ours))


class FakeRuns:
    """Runs that have ended, as the methods of a Dagster instance report them; storage ids count from 1."""

    def __init__(self):
        self.ended, self.checks, self.steps, self.unreadable = [], {}, {}, set()

    def end(self, kind, *, checks=(), steps=(), dataset="birds", assets=("audio_shards", "catalog"), **tags):
        run_id = f"run{len(self.ended) + 1}"
        keys = None if assets is None else {dg.AssetKey([dataset, name]) for name in assets}
        tags |= {DATASET_TAG: dataset} if dataset else {}
        run = SimpleNamespace(
            run_id=run_id, status=STATUSES[kind], job_name="birds_gc", asset_selection=keys, tags=tags
        )
        self.ended.append((kind, run))
        self.checks[run_id], self.steps[run_id] = checks, steps
        return run_id

    def fetch_run_status_changes(self, records_filter, limit, *, ascending=False):
        is_kind = isinstance(records_filter, dg.DagsterEventType)
        kind = records_filter if is_kind else records_filter.event_type
        after = 0 if is_kind else records_filter.after_storage_id
        found = [
            SimpleNamespace(storage_id=number, event_log_entry=SimpleNamespace(run_id=run.run_id))
            for number, (of, run) in enumerate(self.ended, 1)
            if of is kind and number > after
        ]
        return SimpleNamespace(records=(found if ascending else found[::-1])[:limit])

    def get_run_by_id(self, run_id):
        if run_id in self.unreadable:
            raise OSError("database is locked")
        return next((run for _, run in self.ended if run.run_id == run_id and run.tags.get("gone") is None), None)

    def all_logs(self, run_id, of_type):
        if of_type is dg.DagsterEventType.STEP_FAILURE:
            events = [SimpleNamespace(step_failure_data=found) for found in self.steps[run_id]]
        else:
            events = [SimpleNamespace(asset_check_evaluation_data=found) for found in self.checks[run_id]]
        return [SimpleNamespace(get_dagster_event=lambda event=event: event) for event in events]


@pytest.fixture(scope="module")
def instance():
    return memory_instance()


class Told:
    """The sensor with a cursor, the alerts that were sent, and the answers of the next deliveries."""

    def __init__(self, runs, instance):
        self.runs, self.sent, self.tried, self.faults, self.cursor = runs, [], [], [], None
        self._instance = instance
        self.sensor = alerts.alerts_sensor([BIRDS, WHALES])

    def send(self, alert, config, environment, channels):
        self.tried.append(tuple(channels))
        faults = self.faults.pop(0) if self.faults else {}
        if not faults:
            self.sent.append((alert, config))
        return faults

    def tick(self):
        """One tick. Returns its message."""
        result = self.sensor(dg.build_sensor_context(instance=self._instance, cursor=self.cursor))
        self.cursor = result.cursor
        return result.skip_reason.skip_message

    @property
    def position(self):
        return json.loads(self.cursor)


@pytest.fixture
def told(instance, monkeypatch):
    told = Told(FakeRuns(), instance)
    for method in ("fetch_run_status_changes", "get_run_by_id", "all_logs"):
        monkeypatch.setattr(instance, method, getattr(told.runs, method))
    monkeypatch.setattr(alerts, "send", told.send)
    monkeypatch.delenv(alerts.UI_VARIABLE, raising=False)
    for variable in ("birds", "whales"):
        monkeypatch.setenv(variable, "http://webhook")
    told.tick()
    return told


def alert_of(told):
    """The one alert after a tick."""
    assert told.tick() == "1 alerts sent"
    ((alert, config),) = told.sent
    assert config.webhook == alert.dataset
    return alert


def test_the_first_tick_remembers_the_newest_runs_and_reports_none(told):
    assert told.position == {"failure": 0, "success": 0, "tries": 0, "channels": list(EVERYWHERE), "lost": 0}
    for kind in (FAILURE, FAILURE, SUCCESS, FAILURE, SUCCESS):
        told.runs.end(kind, checks=[check()])
    told.cursor = None
    assert told.tick() == "reading runs from now on"
    assert (told.position["failure"], told.position["success"]) == (4, 5)
    assert told.tick() == "nothing to report"
    assert told.sent == []


def test_the_sensor_runs_by_default(told):
    assert told.sensor.name == "headrace_alerts"
    assert told.sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_an_alert_of_a_failed_run_names_assets_partition_and_reasons(told, monkeypatch):
    monkeypatch.setenv(alerts.UI_VARIABLE, "http://ui/")
    steps = [step("no space"), step("ignored", ours="disk is full")]
    run_id = told.runs.end(FAILURE, steps=steps, **{PARTITION_TAG: "p7"})
    alert = alert_of(told)
    assert (alert.dataset, alert.title) == ("birds", "failed: audio_shards, catalog [p7]")
    assert alert.text == "no space\ndisk is full"
    assert alert.link == f"http://ui/runs/{run_id}"


def test_a_failed_run_without_a_failed_step_is_reported_too(told):
    told.runs.end(FAILURE, steps=[step()], assets=None)
    alert = alert_of(told)
    assert alert.title == "failed: birds_gc"
    assert alert.text == "the run ended without a failed step; its process may have died"
    assert alert.link == ""


def test_failed_checks_of_a_successful_run_are_reported(told):
    told.runs.end(SUCCESS, checks=[check("fits"), check("good", passed=True), check("drift", description="9% fewer")])
    alert = alert_of(told)
    assert alert.title == "checks failed: audio_shards, catalog"
    assert alert.text == "check fits of birds/catalog: failed\ncheck drift of birds/catalog: 9% fewer"


def test_a_failed_run_is_titled_by_its_failure_and_lists_its_failed_checks_first(told):
    told.runs.end(FAILURE, checks=[check()], steps=[step("no space")])
    alert = alert_of(told)
    assert alert.title == "failed: audio_shards, catalog"
    assert alert.text == "check fits of birds/catalog: failed\nno space"


def test_runs_that_succeeded_runs_of_others_and_deleted_runs_are_not_reported(told):
    told.runs.end(SUCCESS, checks=[check(passed=True)], steps=[step("a retried step")])
    told.runs.end(FAILURE, dataset="", assets=None, gone="yes")
    told.runs.ended[-1][1].job_name = "someone_else"
    told.runs.end(FAILURE, dataset="", assets=None)
    told.runs.ended[-1][1].job_name = "someone_else"
    assert told.tick() == "nothing to report"
    assert told.sent == []
    assert (told.position["failure"], told.position["success"]) == (3, 1)


def test_a_run_of_a_data_set_that_is_no_longer_loaded_goes_to_the_usual_recipients(told):
    told.runs.end(FAILURE, dataset="frogs")
    assert told.tick() == "1 alerts sent"
    ((alert, config),) = told.sent
    assert (alert.dataset, alert.title) == ("frogs", "failed: frogs/audio_shards, frogs/catalog")
    assert config == type(config)()


def test_a_failed_delivery_is_tried_again_on_the_channels_that_failed_and_given_up_after_five(told):
    told.runs.end(FAILURE)
    told.runs.end(FAILURE, dataset="whales")
    told.faults = [{AlertChannel.WEBHOOK: "webhook: 500"}] * 5
    for tries in range(1, 5):
        assert told.tick() == "could not be delivered: webhook: 500"
        assert (told.position["failure"], told.position["tries"]) == (0, tries)
        assert told.position["channels"] == [AlertChannel.WEBHOOK]
    message = "1 alerts sent; could not be delivered: webhook: 500; 1 alerts given up so far, after 5 tries each"
    assert told.tick() == message
    assert told.tried == [EVERYWHERE, *4 * [(AlertChannel.WEBHOOK,)], EVERYWHERE]
    assert [alert.dataset for alert, _ in told.sent] == ["whales"]
    assert told.position == {"failure": 2, "success": 0, "tries": 0, "channels": list(EVERYWHERE), "lost": 1}
    assert told.tick() == "1 alerts given up so far, after 5 tries each"


def test_a_run_that_cannot_be_read_is_given_up_like_an_alert_that_cannot_be_delivered(told):
    run_id = told.runs.end(FAILURE)
    told.runs.unreadable.add(run_id)
    for _ in range(4):
        assert told.tick().startswith(f"could not be delivered: run {run_id} cannot be read (OSError); ")
    assert told.tick().endswith("1 alerts given up so far, after 5 tries each")
    assert told.position["failure"] == 1
    assert told.sent == []


def test_a_tick_reads_the_oldest_runs_first_and_the_rest_later(told):
    for number in range(25):
        told.runs.end(FAILURE, dataset="birds" if number < 20 else "whales")
    assert told.tick() == "20 alerts sent"
    assert {alert.dataset for alert, _ in told.sent} == {"birds"}
    assert told.tick() == "5 alerts sent"


def test_a_run_of_several_partitions_is_titled_by_its_ends_and_names_the_partition_of_each_check(told):
    tags = range_tags(("train-0000", "train-0007"))
    told.runs.end(FAILURE, checks=[check(partition="train-0003")], steps=[step(ours="1 of 8 failed")], **tags)
    alert = alert_of(told)
    assert alert.title == "failed: audio_shards, catalog [train-0000 … train-0007]"
    assert alert.text.splitlines()[0] == "check fits of birds/catalog [train-0003]: failed"


def test_a_run_of_one_partition_names_it_once(told):
    told.runs.end(SUCCESS, checks=[check(partition="train-0003")], **{PARTITION_TAG: "train-0003"})
    alert = alert_of(told)
    assert alert.title == "checks failed: audio_shards, catalog [train-0003]"
    assert alert.text == "check fits of birds/catalog: failed"
