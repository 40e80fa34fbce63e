"""Failed runs, failed checks and growing rejects are reported once each; failed deliveries are tried again."""

from pathlib import Path

import dagster as dg
import pytest

from headrace.alerts.alerts import AlertChannel
from headrace.assemble import recording_encoder
from headrace.config.dataset import DatasetConfig
from headrace.errors import AudioError
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.sensors.alerts import alerts_sensor
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon
from tests.support.failing_checks import fail_index_check
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

pytestmark = pytest.mark.medium


@pytest.fixture
def told(monkeypatch):
    """The alerts sent, and what the next deliveries say."""
    sent, faults = [], []

    def send(alert, config, environment, channels):
        if faults:
            return faults.pop()
        sent.append(alert)
        return {}

    monkeypatch.setattr("headrace_dagster.sensors.alerts.send", send)
    send.sent, send.faults = sent, faults
    return send


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    """A daemon after the first tick of the sensor, which reports nothing that happened before."""
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


def test_a_failed_run_is_reported_once_with_the_reason(daemon, told, monkeypatch):
    fail_index_check(monkeypatch)
    daemon.project.write_tone("tone001", hz=999)
    daemon.settle()
    daemon.tick("alerts")
    daemon.tick("alerts")
    (alert,) = told.sent
    assert alert.dataset == "tones"
    assert "audio_shards" in alert.title
    assert "train-0000" in alert.title
    assert "made up" in alert.text


def test_growing_rejects_warn_and_block_nothing(daemon, told):
    for i in range(3):
        (daemon.project.recordings / f"broken{i}.wav").write_bytes(b"RIFF, but no sound")
    daemon.project.write_tone("tone001", hz=999)
    made = daemon.settle()
    assert all(run.success for run in made)
    assert len(made) == 2
    daemon.tick("alerts")
    (alert,) = told.sent
    assert "rejected_drift" in alert.text
    assert "42.9% of the files are rejected, 0.0% were" in alert.text


def test_much_more_audio_warns(daemon, told):
    for i in range(20):
        daemon.project.write_tone(f"long{i}", seconds=0.5)
    daemon.settle()
    daemon.tick("alerts")
    assert "hours_drift" in told.sent[0].text
    assert "duration_p50_seconds" in told.sent[0].text


def test_an_alert_that_cannot_be_delivered_is_tried_again(daemon, told, monkeypatch):
    daemon.project.write_tone("tone001", hz=999)
    fail_index_check(monkeypatch)
    daemon.settle()
    told.faults.append({AlertChannel.WEBHOOK: "webhook: 500"})
    daemon.tick("alerts")
    assert told.sent == []
    assert "could not be delivered" in daemon.reasons["alerts"]
    daemon.tick("alerts")
    assert len(told.sent) == 1


def test_runs_before_the_first_tick_are_not_reported(daemon, told, monkeypatch):
    fail_index_check(monkeypatch)
    daemon.run(dg.RunRequest(asset_selection=[daemon.project.keys.audio_shards], partition_key="train-0000"))
    daemon.cursors.clear()
    daemon.tick("alerts")
    daemon.tick("alerts")
    assert told.sent == []


def test_each_tick_names_recipients_that_no_message_can_reach(monkeypatch):
    monkeypatch.delenv("HEADRACE_ALERTS_SMTP", raising=False)
    alerts = {"email_to": ["a@example.org"]}
    config = DatasetConfig(name="birds", source={"uri": "a"}, output={"uri": "b"}, alerts=alerts)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, cursor='{"failure": 0, "success": 0}')
        result = alerts_sensor([ProjectDataset.named(config)])(context)
    assert result.skip_reason.skip_message == (
        "nothing to report; birds: no e-mail is sent to a@example.org: the variable HEADRACE_ALERTS_SMTP has no value"
    )


def test_a_recording_that_was_accepted_before_and_is_rejected_now_is_reported_once(daemon, told):
    (daemon.project.recordings / "tone001.wav").write_bytes(b"RIFF, but no sound")
    (daemon.project.recordings / "new.wav").write_bytes(b"RIFF, but no sound")
    daemon.settle()
    daemon.tick("alerts")
    (alert,) = told.sent
    assert "catalog" in alert.title
    lines = alert.text.splitlines()
    first = next(line for line in lines if "new_rejects" in line)
    assert "2 files or rows are newly rejected, 1 of them usable until now" in first
    blank, *listed = lines[lines.index(first) + 1 :]
    assert blank == ""  # without it, Markdown shows no list
    assert listed[0].startswith("- tone001.wav, usable until now: ")
    assert listed[1].startswith("- new.wav: ")
    daemon.run(dg.RunRequest(asset_selection=[daemon.project.keys.catalog]))
    daemon.settle()
    daemon.tick("alerts")
    assert not any("new_rejects" in alert.text for alert in told.sent[1:])


def test_missing_recordings_are_reported_separately_from_drift_and_block_nothing(daemon, told):
    (daemon.project.recordings / "tone001.wav").unlink()
    assert all(run.success for run in daemon.settle())
    daemon.tick("alerts")
    (alert,) = told.sent
    assert "check dropped_audio of tones/catalog: usable audio: " in alert.text
    assert "\n\n- 1 recordings are gone\n- tone001.wav" in alert.text
    assert "drift" not in alert.text
    assert daemon.settle() == []


def test_a_recording_that_only_decoding_rejects_is_reported_with_the_snapshot(daemon, told, monkeypatch):
    path = daemon.project.write_tone("tone001", hz=999)
    encode = recording_encoder.encode_segments

    def fail(file, *form_and_segments, **about):
        if Path(file.name).name == path.name:
            raise AudioError("undecodable", "a made-up fault")
        return encode(file, *form_and_segments, **about)

    monkeypatch.setattr(recording_encoder, "encode_segments", fail)
    daemon.settle()
    daemon.tick("alerts")
    (alert,) = [alert for alert in told.sent if "new_rejects" in alert.text]
    assert "check new_rejects of tones/sizes_index: 1 files" in alert.text
    assert "tone001.wav, usable until now: a made-up fault" in alert.text
    assert daemon.settle() == []
