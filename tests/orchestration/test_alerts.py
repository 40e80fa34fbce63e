"""Failed runs, failed checks and growing rejects are told once each; what cannot be delivered is tried again."""

import dagster as dg
import pytest

from headrace.config import DatasetConfig
from sensors.alerts import alerts_sensor
from tests.built import SettledDaemon
from tests.daemons import Daemon
from tests.projects import Project


@pytest.fixture
def told(monkeypatch):
    """The alerts sent, and what the next deliveries say."""
    sent, faults = [], []

    def send(alert, config, environment):
        if faults:
            return [faults.pop()]
        sent.append(alert)
        return []

    monkeypatch.setattr("sensors.alerts.send", send)
    send.sent, send.faults = sent, faults
    return send


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """After a first look, before which nothing is told."""
    project = Project(tmp_path_factory.mktemp("alerts"))
    project.write_tones(4)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 4, "partitions": {"train": 1}})
    daemon = Daemon(project)
    daemon.tick("alerts")
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled, told, undrawn):
    daemon = settled.put_back()
    daemon.tick("alerts")
    assert told.sent == []
    return daemon


def test_a_failed_run_is_told_once_with_the_reason(daemon, told, monkeypatch):
    monkeypatch.setattr("assets.checks.index_faults", lambda storage, shard: [f"{shard.name}: made up"])
    daemon.project.write_tone("tone001", hz=999)
    daemon.settle()
    daemon.tick("alerts")
    daemon.tick("alerts")
    (alert,) = told.sent
    assert alert.dataset == "tones"
    assert "audio_shards" in alert.title
    assert "train-0000" in alert.title
    assert "made up" in alert.text


def test_growing_rejects_warn_and_hold_nothing_back(daemon, told):
    for i in range(3):
        (daemon.project.recordings / f"broken{i}.wav").write_bytes(b"RIFF, but no sound")
    daemon.project.write_tone("tone001", hz=999)
    made = daemon.settle()
    assert all(run.success for run in made)
    assert len(made) == 2
    daemon.tick("alerts")
    (alert,) = told.sent
    assert "rejected_drift" in alert.text
    assert "42.9% of the files are refused, 0.0% were" in alert.text


def test_much_more_audio_warns(daemon, told):
    for i in range(20):
        daemon.project.write_tone(f"long{i}", seconds=0.5)
    daemon.settle()
    daemon.tick("alerts")
    assert "hours_drift" in told.sent[0].text
    assert "duration_p50_seconds" in told.sent[0].text


def test_an_alert_that_cannot_be_delivered_is_tried_again(daemon, told, monkeypatch):
    (daemon.project.recordings / "tone001.wav").unlink()
    monkeypatch.setattr("assets.checks.index_faults", lambda storage, shard: ["made up"])
    daemon.settle()
    told.faults.append("webhook: 500")
    daemon.tick("alerts")
    assert told.sent == []
    assert "could not be delivered" in daemon.reasons["alerts"]
    daemon.tick("alerts")
    assert len(told.sent) == 1


def test_what_was_before_the_first_look_is_not_told(daemon, told, monkeypatch):
    monkeypatch.setattr("assets.checks.index_faults", lambda storage, shard: ["made up"])
    daemon.run(dg.RunRequest(asset_selection=[daemon.project.keys.audio_shards], partition_key="train-0000"))
    daemon.cursors.clear()
    daemon.tick("alerts")
    daemon.tick("alerts")
    assert told.sent == []


def test_each_tick_says_which_recipients_no_message_can_reach(monkeypatch):
    monkeypatch.delenv("HEADRACE_ALERTS_SMTP", raising=False)
    alerts = {"email_to": ["a@example.org"]}
    config = DatasetConfig(name="birds", source={"uri": "a"}, output={"uri": "b"}, alerts=alerts)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, cursor='{"failure": 0, "success": 0}')
        result = alerts_sensor({"birds": config})(context)
    assert result.skip_reason.skip_message == (
        "nothing to tell; birds: no e-mail goes to a@example.org: the variable HEADRACE_ALERTS_SMTP has no value"
    )
