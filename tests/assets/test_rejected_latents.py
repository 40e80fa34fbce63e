"""Samples without latents: a check warns and names them; above `max_rejected`, no snapshot is committed."""

import contextlib

import dagster as dg
import numpy as np
import pytest
import soundfile

import build
from headrace import StreamingDataset
from headrace.cli import main as headrace
from headrace.format.snapshots.snapshots import read_snapshot, snapshot_numbers
from headrace.stores.storage import LocalStorage
from tests.support.instances import memory_instance
from tests.support.projects import RATE_HZ, Project

LATENTS = {"name": "loud", "encoder": {"kind": "custom", "encoder": "tests.support.loud_encoder:Loud"}}

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


@pytest.fixture
def instance(monkeypatch):
    found = memory_instance()
    monkeypatch.setattr("headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(found))
    return found


def write(project, max_rejected=None):
    limit = {} if max_rejected is None else {"max_rejected": max_rejected}
    project.write_yaml(
        splits={"train": 1.0},
        shards={"samples_per_shard": 4, "partitions": {"train": 1}},
        latents=[{**LATENTS, **limit}],
        loader={"num_workers": 0, "shuffle_buffer": 0},
    )


def write_loud(project, *names):
    for name in names:
        soundfile.write(project.recordings / f"{name}.wav", 0.95 * np.ones(RATE_HZ // 10), RATE_HZ, subtype="PCM_16")


@pytest.fixture
def project(tmp_path, instance):
    """Five quiet recordings and a loud one."""
    project = Project(tmp_path)
    project.write_tones(5)
    write_loud(project, "shout")
    return project


def run(project):
    return build.main(["tones", "--datasets", str(project.datasets)])


def latents_of(project):
    return LocalStorage(project.output / "latents/loud")


def verdict(project, instance):
    """The last evaluation of the check."""
    key = dg.AssetCheckKey(project.keys.latents_index("loud"), "loud_rejected")
    return instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key].evaluation


@pytest.mark.slow
def test_up_to_the_limit_it_warns_and_everything_goes_on_once(project, instance, capsys):
    write(project, 0.2)
    assert run(project) == 0
    found = verdict(project, instance)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "1 of 6 samples have no latents: shout" in found.description
    assert "do not fit float16" in found.description
    (row,) = found.metadata["rejected_table"].records
    assert row.data["key"].startswith("shout-")
    assert (row.data["path"], row.data["code"]) == ("shout.wav", "overflow")
    assert read_snapshot(latents_of(project)).snapshot.num_samples == 6
    shards = project.keys.latent_shards("loud")
    shown = instance.get_latest_materialization_event(shards).asset_materialization.metadata
    assert shown["rejected"].value == 1
    assert shown["rejected_table"].records[0].data["key"] == row.data["key"]
    page = (project.output / "report.html").read_text()
    assert "Samples without latents" in page
    assert row.data["key"] in page
    capsys.readouterr()
    assert headrace(["inspect", str(project.output)]) == 0
    shown = capsys.readouterr().out
    assert "samples without latents" in shown
    assert "overflow" in shown
    known = len(instance.get_runs())
    assert run(project) == 0
    assert len(instance.get_runs()) == known + 1  # the scan: what only warns is not made again


def test_above_the_limit_nothing_is_committed_and_readers_keep_the_previous_snapshot(project, instance, capsys):
    write(project, 0.2)
    assert run(project) == 0
    write_loud(project, "scream")
    capsys.readouterr()
    assert run(project) == 1
    assert "2 of 7 samples have no latents, more than max_rejected=0.2: " in capsys.readouterr().out
    found = verdict(project, instance)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert read_snapshot(latents_of(project)).snapshot.num_samples == 6
    joined = StreamingDataset(
        remote=f"{project.output}/audio", latents=[f"{project.output}/latents/loud"], on_missing_latents="skip"
    )
    assert sum(not sample.get("is_padding", False) for sample in joined) == 5
    write(project, 0.5)
    assert run(project) == 0
    assert read_snapshot(latents_of(project)).snapshot.num_samples == 7


def test_the_default_limit_is_one_in_a_hundred(project, instance):
    write(project)
    assert run(project) == 1
    assert verdict(project, instance).metadata["most_rejected_share"].value == 0.01
    assert snapshot_numbers(latents_of(project)) == []


def test_without_any_the_check_passes(project, instance):
    (project.recordings / "shout.wav").unlink()
    write(project)
    assert run(project) == 0
    found = verdict(project, instance)
    assert found.passed
    assert found.metadata["rejected"].value == 0
    assert "Samples without latents" not in (project.output / "report.html").read_text()


def test_a_set_whose_latents_were_all_rejected_passes_where_the_yaml_allows_it(project, instance):
    for path in project.recordings.glob("*.wav"):
        write_loud(project, path.stem)
    write(project, 1.0)
    assert run(project) == 0
    assert verdict(project, instance).metadata["rejected_share"].value == 1.0
    smoke = instance.get_latest_materialization_event(project.keys.loader_smoke_test).asset_materialization
    rows = [record.data for record in smoke.metadata["shards_table"].records if record.data["part"] != "audio"]
    assert sum(row["rejected"] for row in rows) == 6
    assert {row["streamed"] for row in rows} == {0}
