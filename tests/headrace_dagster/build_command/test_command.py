"""`build.py` end to end: real files, a real Dagster instance, exit codes and printed text."""

import os
import signal
import subprocess
import sys
import time

import dagster as dg
import polars as pl
import pytest

from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from headrace_dagster.resources.storage import StorageResource
from tests.support.instances import memory_instance
from tests.support.projects import touch
from tests.support.six_tones import run, runs

pytestmark = pytest.mark.medium


def test_a_first_build_writes_shards_and_a_second_build_writes_nothing(project, instances, capsys):
    assert run(project) == 0
    shown = capsys.readouterr().out
    assert "train" in shown
    assert str(project.output / "audio") in shown
    assert sum(project.sizes().values()) == 6
    assert "6 added (tone000.wav, tone001.wav, tone002.wav and 3 more)" in shown
    assert "4 of 4" in shown
    before, known = project.files(), runs(instances[-1])
    assert run(project) == 0
    assert project.files() == before
    assert runs(instances[-1]) == [*known, ("catalog", "")]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("tones: nothing changed: 6 recordings, audio: 4 shards in snapshot 1 (")
    assert run(project, "--table") == 0
    assert "samples" in capsys.readouterr().out


def test_a_build_shows_what_changed_and_why(built, capsys, monkeypatch):
    """One file changed, one broken, one deleted: files, the new reject, partitions with their reason, shards."""
    monkeypatch.setenv("COLUMNS", "200")
    built.write_tone("tone002", hz=999)
    (built.recordings / "bad.wav").write_bytes(b"RIFF not audio")
    gone = built.partition_of("tone004.wav")
    touched = {gone, built.partition_of("tone002.wav")}
    (built.recordings / "tone004.wav").unlink()
    before = built.sizes()
    assert run(built) == 0
    shown = [" ".join(line.replace("│", "|").split()) for line in capsys.readouterr().out.splitlines()]
    assert "files: 1 added (bad.wav), 1 changed (tone002.wav), 1 removed (tone004.wav); 5 recordings" in shown
    assert shown.index("rejected, new: 1") + 1 == next(
        i for i, line in enumerate(shown) if line.startswith("bad.wav: ")
    )
    (row,) = [line.split() for line in shown if line.startswith("audio_shards ")]
    names = ", ".join(name for name in built.config().partitioning().partition_keys() if name in touched)
    written, removed = (len(set(a) - set(b)) for a, b in ((built.sizes(), before), (before, built.sizes())))
    kept = len(built.sizes()) - written
    assert row[2:] == [str(len(touched)), "of", "4", *map(str, (written, kept, removed, len(built.sizes())))]
    assert f"audio_shards: recordings or metadata changed: {names}" in shown
    assert run(built) == 0
    assert "; 1 rejected as before: " in capsys.readouterr().out


def test_an_interrupted_build_reports_what_is_done_and_ends_with_one_clear_line(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    calls = []

    def check(_):
        calls.append(1)
        if len(calls) == 4:  # the scan and two partitions
            raise KeyboardInterrupt

    monkeypatch.setattr("headrace_dagster.build_command.interrupts.Interrupts.check", check)
    assert run(project) == 130
    shown = capsys.readouterr()
    assert "files: 6 added" in shown.out
    assert "2 of 4" in shown.out
    assert "audio_shards: 2 partitions are still to build" in shown.out
    assert shown.err == "stopped with Ctrl-C: finished shards are kept, and the next build continues from here\n"


def test_one_changed_file_runs_one_partition(built, instances):
    before, known = built.sizes(), runs(instances[-1])
    built.write_tone("tone002", hz=999)
    assert run(built) == 0
    new = [name for name, _ in runs(instances[-1])[len(known) :]]
    assert new.count("audio_shards") == 1
    assert len(set(built.sizes()) - set(before)) == 1


def test_touched_files_run_only_the_scan(built, instances):
    known = runs(instances[-1])
    for path in built.recordings.iterdir():
        touch(path)
    assert run(built) == 0
    assert runs(instances[-1]) == [*known, ("catalog", "")]


def test_a_deleted_shard_is_made_again_with_the_same_bytes(built):
    before = built.files()
    name = next(iter(built.sizes()))
    (built.output / "audio" / name).unlink()
    assert run(built) == 0
    assert built.files() == before


def test_a_home_without_settings_gets_our_dagster_yaml(project, home):
    home.mkdir()
    assert run(project, "--select", "catalog") == 0
    assert (home / "dagster.yaml").read_text() == (REPOSITORY_ROOT / "dagster_home/dagster.yaml").read_text()


def test_a_changed_encoder_encodes_only_its_own_latents_and_a_touched_source_none(project, instances):
    coarse, fine = (
        {"name": name, "encoder": {"kind": "log_mel", "num_mels": num_mels}} for name, num_mels in (("a", 8), ("b", 16))
    )
    project.write_yaml(latents=[coarse, fine], shards={"samples_per_shard": 4, "partitions": {"train": 1, "test": 1}})
    assert run(project) == 0
    before, known = project.files(), runs(instances[-1])
    for path in project.recordings.iterdir():
        touch(path)
    assert run(project) == 0
    assert runs(instances[-1]) == [*known, ("catalog", "")]
    known = runs(instances[-1])
    project.write_yaml(latents=[coarse, {**fine, "dtype": "float32"}])
    assert run(project) == 0
    made = {name for name, _ in runs(instances[-1])[len(known) :]}
    assert made == {"catalog", "b_latent_shards", "b_sizes_index", "loader_smoke_test", "dataset_report"}
    untouched = [path for path in before if path.startswith(("audio/", "latents/a/"))]
    assert {path: before[path] for path in untouched} == {path: project.files()[path] for path in untouched}


@pytest.mark.slow
def test_a_raised_reshuffle_plans_shards_from_scratch_and_encodes_no_latents(project, instances):
    mel = {"name": "mel", "encoder": {"kind": "log_mel"}}
    layout = {"samples_per_shard": 3, "partitions": {"train": 1}}
    project.write_yaml(splits={"train": 1.0}, latents=[mel], shards=layout)
    assert run(project) == 0
    for number in (0, 2):
        (project.recordings / f"tone{number:03d}.wav").unlink()
    assert run(project) == 0
    project.write_yaml(splits={"train": 1.0}, latents=[mel], shards=layout | {"reshuffle": 1})
    assert run(project) == 0
    assert list(project.sizes().values()) == [3, 1]
    made = instances[-1].get_latest_materialization_event(dg.AssetKey(["tones", "mel_latent_shards"]))
    found = made.asset_materialization.metadata
    assert (found["samples_kept"].value, found["batches"].value) == (4, 0)


def test_a_recording_too_short_for_a_segment_is_rejected(project):
    project.write_yaml(audio={"segment_seconds": 0.05, "last_segment": "drop"})
    project.write_tone("short", hz=440, seconds=0.01)
    assert run(project) == 0
    rejected = pl.read_parquet(project.output / "catalog/rejected.parquet")
    assert rejected.select("path", "code").rows() == [("short.wav", "too_short")]


@pytest.mark.slow
def test_a_column_declared_frame_aligned_is_checked_although_its_latents_exist(project, instances, capsys):
    """Nothing is encoded again. The build fails until the labels fit, and names the sample that does not fit."""
    labels = project.folder / "labels.csv"
    rows = [f'{path.name},"[1, 1, 1, 1, 1, 1]"' for path in sorted(project.recordings.iterdir())]
    labels.write_text("\n".join(["path,chords", *rows[:-1], 'tone005.wav,"[1, 1]"']))
    mel = {"name": "mel", "encoder": {"kind": "log_mel"}}
    source = {"uri": str(project.recordings), "metadata": str(labels), "settle_seconds": 0}
    layout = {"samples_per_shard": 4, "partitions": {"train": 1, "test": 1}}
    project.write_yaml(source=source, latents=[mel], shards=layout)
    assert run(project) == 0
    latents = project.output / "latents/mel"
    before = {path: path.read_bytes() for path in latents.rglob("*") if path.is_file()}
    project.write_yaml(latents=[{**mel, "frame_aligned": ["chords"]}])
    known = runs(instances[-1])
    assert run(project) == 1
    assert "column 'chords' has 2 entries, its latents have 6 frames" in " ".join(capsys.readouterr().out.split())
    assert {name for name, _ in runs(instances[-1])[len(known) :]} == {"catalog", "mel_latent_shards"}
    assert {path: path.read_bytes() for path in latents.rglob("*") if path.is_file()} == before
    labels.write_text("\n".join(["path,chords", *rows]))
    assert run(project) == 0
    known = runs(instances[-1])
    assert run(project) == 0
    assert runs(instances[-1]) == [*known, ("catalog", "")]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"train_0000_000000-000000000000.tar": 9}'])
def test_a_deleted_or_wrong_sizes_json_is_repaired(built, content):
    before = built.files()
    sizes = built.output / "audio/sizes.json"
    sizes.unlink()
    if content is not None:
        sizes.write_text(content)
    assert run(built) == 0
    assert built.files() == before


@pytest.mark.parametrize("content", [None, b"", b"not a table"])
def test_a_deleted_or_damaged_table_of_the_newest_snapshot_is_repaired(built, content):
    before = built.files()
    table = next((built.output / "audio/snapshots").glob("*.shards"))
    table.unlink()
    if content is not None:
        table.write_bytes(content)
    assert run(built) == 0
    assert built.files() == before


def test_after_a_wipe_of_the_instance_all_is_recorded_again_and_nothing_is_written(built, instances):
    before, known = built.files(), runs(instances[-1])
    times = {path: path.stat().st_mtime_ns for path in built.output.rglob("*.tar")}
    instances.append(memory_instance())
    assert run(built) == 0
    assert built.files() == before
    assert {path: path.stat().st_mtime_ns for path in built.output.rglob("*.tar")} == times
    assert runs(instances[-1]) == known


def test_selecting_one_asset_leaves_the_others_unchanged(project, instances):
    assert run(project, "--select", "catalog,audio_shards") == 0
    assert {name for name, _ in runs(instances[-1])} == {"catalog", "audio_shards"}
    assert not (project.output / "audio/sizes.json").exists()
    assert run(project, "--select", "tones/sizes_index") == 0
    assert sum(project.sizes().values()) == 6


def test_a_selection_may_use_dagsters_syntax(project, instances):
    assert run(project, "--select", '+key:"tones/audio_shards"', "--select", "catalog") == 0
    assert {name for name, _ in runs(instances[-1])} == {"catalog", "audio_shards"}


@pytest.mark.parametrize("name", ["recordings", "tones/recordings"])
def test_selecting_the_recordings_runs_the_catalog_that_updates_them(project, instances, name):
    assert run(project, "--select", name) == 0
    assert [found for found, _ in runs(instances[-1])] == ["catalog"]


def test_a_recording_that_changes_during_the_build_is_scanned_again(project, monkeypatch):
    read = StorageResource.catalog

    def change_once(storage, config):
        catalog = read(storage, config)
        if not (project.output / "audio").exists():
            project.write_tone("tone002", hz=999)
        return catalog

    monkeypatch.setattr(StorageResource, "catalog", change_once)
    assert run(project) == 0
    assert sum(project.sizes().values()) == 6


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_next_build_continues(project, home):
    for i in range(24):
        project.write_tone(f"long{i}", hz=300 + i, seconds=20)
    command = [sys.executable, str(REPOSITORY_ROOT / "build.py"), "tones", "--datasets", str(project.datasets)]
    wide = {**os.environ, "COLUMNS": "200"}
    child = subprocess.Popen(command, env=wide, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 300
    while not list(project.output.rglob("*.tar")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    shown = child.communicate(timeout=300)[0]
    assert child.returncode == 130, shown
    assert "Traceback" not in shown
    assert shown.splitlines()[-1].startswith("stopped with Ctrl-C: ")
    assert "still to build" in shown
    assert run(project) == 0
    assert sum(project.sizes().values()) == 30


@pytest.mark.slow  # matplotlib searches for fonts in a new home directory
def test_nothing_is_written_below_the_home_directory(project, home, tmp_path):
    home = tmp_path / "user"
    home.mkdir()
    command = [sys.executable, str(REPOSITORY_ROOT / "build.py"), "tones", "--datasets", str(project.datasets)]
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=400)
    assert not list(home.glob(".dagster*"))


def test_a_table_of_columns_is_joined_without_the_audio(built, capsys):
    """Rows that match nothing are named, and so are samples without a row."""
    table = built.folder / "captions.csv"
    table.write_text("path,caption\ntone000.wav,a\nnowhere.wav,b\n")
    built.write_yaml(columns=[{"name": "captions", "table": str(table)}])
    assert run(built) == 0
    said = capsys.readouterr().out
    assert "captions_columns: new: " in said
    assert "audio_shards" not in said
    assert "columns captions: 1 of 2 rows match no sample: " in said
    assert "columns captions: 5 recordings have no row, so their values are null" in said


def test_an_invalid_table_of_columns_or_view_stops_nothing_else(built, capsys):
    table = built.folder / "captions.csv"
    table.write_text("path,caption\ntone000.wav,a\ntone000.wav,b\n")
    views = {"bad": {"where": "nope > 1"}, "long": {"where": "duration_seconds > 0"}}
    built.write_yaml(columns=[{"name": "captions", "table": str(table)}], views=views)
    page = built.output / "report.html"
    assert "<td>long</td>" not in page.read_text()
    assert run(built) == 1
    assert "<td>long</td>" in page.read_text()
    said = capsys.readouterr().out
    assert "'tone000.wav' (rows 1 and 2 differ in caption); keep one row of each" in said
    assert "failed tones/bad_view: view 'bad': where 'nope > 1': no column nope" in said
    assert "long_view" in said
    assert "failed tones/long_view" not in said


def test_an_empty_split_is_a_warning_of_the_build(project, capsys):
    project.write_yaml(splits={"train": 0.999, "test": 0.001})
    assert run(project) == 0
    said = capsys.readouterr().out
    assert "warning tones/catalog: check splits_have_samples: " in said
    assert "split test has none of 6 samples" in said


def test_what_checks_of_the_catalog_warn_of_is_printed(built, capsys):
    table = built.folder / "m.csv"
    table.write_text("path,channel\n")
    source = {"uri": str(built.recordings), "settle_seconds": 0, "metadata": str(table)}
    built.write_yaml(source=source)
    assert run(built) == 0
    said = capsys.readouterr().out
    assert "warning tones/catalog: check columns_are_used: " in said
    assert "column 'channel': a sample has all channels of its file" in said
