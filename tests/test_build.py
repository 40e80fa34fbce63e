"""`build.py` end to end: real files, a real Dagster instance, exit codes and what a person reads."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

import build
from building.instance import open_instance
from headrace.errors import BuildError
from resources.storage import REPOSITORY_ROOT, StorageResource
from tests.built import BuiltProject
from tests.instances import memory_instance
from tests.projects import Project, touch

ROOT = Path(__file__).parent.parent


def six_tones(folder: Path) -> Project:
    project = Project(folder)
    project.write_tones(6)
    project.write_yaml()
    return project


@pytest.fixture
def project(tmp_path, undrawn):
    """A data set that was never built."""
    return six_tones(tmp_path)


@pytest.fixture(scope="module")
def once_built(tmp_path_factory):
    project, instance = six_tones(tmp_path_factory.mktemp("built")), memory_instance()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("building.command.open_instance", lambda: contextlib.nullcontext(instance))
        assert run(project) == 0
    return BuiltProject(project, instance)


@pytest.fixture
def built(once_built, instances):
    """The same data set, up to date."""
    instances[-1] = once_built.instance
    return once_built.put_back()


@pytest.fixture(autouse=True)
def instances(monkeypatch):
    """Every build of a test is recorded in the last of these: in memory, the files of a real one take a second."""
    instances = [memory_instance()]
    monkeypatch.setattr("building.command.open_instance", lambda: contextlib.nullcontext(instances[-1]))
    return instances


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A real instance instead, in files."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("building.command.open_instance", open_instance)
    return tmp_path / "home"


def run(project: Project, *arguments: str) -> int:
    return build.main(["tones", "--datasets", str(project.datasets), *arguments])


def runs(instance: dg.DagsterInstance) -> list[tuple[str, str]]:
    """Asset and partition of all runs that an instance knows, oldest first."""
    found = [(next(iter(run.asset_selection)), run.tags.get("dagster/partition", "")) for run in instance.get_runs()]
    return [("/".join(key.path[1:]), partition) for key, partition in reversed(found)]


def test_a_folder_becomes_shards_and_a_second_build_writes_nothing(project, instances, capsys):
    assert run(project) == 0
    shown = capsys.readouterr().out
    assert "train" in shown
    assert str(project.output / "audio") in shown
    assert sum(project.sizes().values()) == 6
    before, known = project.files(), runs(instances[-1])
    assert run(project) == 0
    assert project.files() == before
    assert runs(instances[-1]) == [*known, ("catalog", "")]


def test_one_changed_file_runs_one_partition(built, instances, undrawn):
    before, known = built.sizes(), runs(instances[-1])
    built.write_tone("tone002", hz=999)
    assert run(built) == 0
    new = [name for name, _ in runs(instances[-1])[len(known) :]]
    assert new.count("audio_shards") == 1
    assert len(set(built.sizes()) - set(before)) == 1


def test_touching_files_runs_nothing_but_the_scan(built, instances):
    known = runs(instances[-1])
    for path in built.recordings.iterdir():
        touch(path)
    assert run(built) == 0
    assert runs(instances[-1]) == [*known, ("catalog", "")]


def test_a_lost_shard_is_made_again_with_the_same_bytes(built):
    before = built.files()
    name = next(iter(built.sizes()))
    (built.output / "audio" / name).unlink()
    assert run(built) == 0
    assert built.files() == before


def test_a_home_without_settings_gets_ours(project, home):
    home.mkdir()
    assert run(project) == 0
    assert (home / "dagster.yaml").read_text() == (REPOSITORY_ROOT / "dagster_home/dagster.yaml").read_text()


def test_a_home_that_cannot_be_used_is_named_without_a_traceback(project, home, capsys):
    home.write_text("a file")
    assert run(project) == 2
    assert f"DAGSTER_HOME {home}" in capsys.readouterr().err
    home.unlink()
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: [")
    assert run(project) == 2
    assert str(home / "dagster.yaml") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("encoder", "says"),
    [
        ({"kind": "nope"}, "encoder kind 'nope' is not known"),
        ({"kind": "log_mel", "hops": 3}, "unknown setting 'hops'"),
    ],
)
def test_a_wrong_encoder_is_refused_before_anything_is_built(project, capsys, encoder, says):
    project.write_yaml(latents=[{"name": "mel", "encoder": encoder}])
    assert run(project) == 2
    shown = capsys.readouterr().err
    assert f"latents.0.encoder{'.kind: ' if 'kind' in says else ': encoder log_mel: '}{says}" in shown
    assert "tones.yaml: " in shown
    assert not project.output.exists()


def test_a_changed_encoder_encodes_its_own_latents_and_a_touched_source_none(project, instances):
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
    assert made == {"catalog", "b/latent_shards", "b/sizes_index", "loader_smoke_test", "dataset_report"}
    untouched = [path for path in before if path.startswith(("audio/", "latents/a/"))]
    assert {path: before[path] for path in untouched} == {path: project.files()[path] for path in untouched}


def test_a_raised_reshuffle_lays_out_shards_anew_and_encodes_no_latents(project, instances):
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
    made = instances[-1].get_latest_materialization_event(dg.AssetKey(["tones", "mel", "latent_shards"]))
    found = made.asset_materialization.metadata
    assert (found["samples_kept"].value, found["batches"].value) == (4, 0)


def test_a_recording_too_short_for_a_segment_is_a_row_of_the_rejects(project):
    project.write_yaml(audio={"segment_seconds": 0.05, "last_segment": "drop"})
    project.write_tone("short", hz=440, seconds=0.01)
    assert run(project) == 0
    rejected = pl.read_parquet(project.output / "catalog/rejected.parquet")
    assert rejected.select("path", "code").rows() == [("short.wav", "too_short")]


def test_two_data_sets_of_one_output_are_refused(project, capsys):
    (project.datasets / "copy.yaml").write_text((project.datasets / "tones.yaml").read_text())
    assert run(project) == 2
    assert "is that of copy.yaml as well" in capsys.readouterr().err
    (project.datasets / "copy.yaml").write_text("source: {uri: x")  # another's fault
    assert run(project) == 0


def test_a_column_declared_frame_aligned_is_checked_though_its_latents_are_there(project, instances, capsys):
    """Nothing is encoded again; the build fails until the labels fit, and names the sample that does not."""
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
    assert {name for name, _ in runs(instances[-1])[len(known) :]} == {"catalog", "mel/latent_shards"}
    assert {path: path.read_bytes() for path in latents.rglob("*") if path.is_file()} == before
    labels.write_text("\n".join(["path,chords", *rows]))
    assert run(project) == 0
    known = runs(instances[-1])
    assert run(project) == 0
    assert runs(instances[-1]) == [*known, ("catalog", "")]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"train_0000_000000-000000000000.tar": 9}'])
def test_a_lost_or_wrong_sizes_json_is_mended(built, content):
    before = built.files()
    sizes = built.output / "audio/sizes.json"
    sizes.unlink()
    if content is not None:
        sizes.write_text(content)
    assert run(built) == 0
    assert built.files() == before


@pytest.mark.parametrize("content", [None, b"", b"not a table"])
def test_a_lost_or_damaged_table_of_the_newest_snapshot_is_mended(built, content):
    before = built.files()
    table = next((built.output / "audio/snapshots").glob("*.shards"))
    table.unlink()
    if content is not None:
        table.write_bytes(content)
    assert run(built) == 0
    assert built.files() == before


def test_a_wiped_instance_is_filled_again_and_nothing_is_written(built, instances):
    before, known = built.files(), runs(instances[-1])
    times = {path: path.stat().st_mtime_ns for path in built.output.rglob("*.tar")}
    instances.append(memory_instance())
    assert run(built) == 0
    assert built.files() == before
    assert {path: path.stat().st_mtime_ns for path in built.output.rglob("*.tar")} == times
    assert runs(instances[-1]) == known


def test_some_refused_files_are_shown_and_do_not_fail_the_build(built, capsys, undrawn):
    (built.recordings / "empty.wav").touch()
    (built.recordings / "cover.jpg").write_bytes(b"\xff\xd8\xff not audio")
    assert run(built) == 0
    shown = capsys.readouterr().out
    assert "empty" in shown
    assert "cover.jpg" in shown
    assert "2 refused" in shown


def test_a_source_where_everything_is_refused_fails_and_says_why(project, capsys):
    for path in project.recordings.iterdir():
        path.write_bytes(b"")
    assert run(project) == 1
    shown = capsys.readouterr().out
    assert "none can be used" in shown
    assert "empty" in shown


def test_an_empty_source_fails_and_says_so(project, capsys):
    for path in project.recordings.iterdir():
        path.unlink()
    assert run(project) == 1
    assert "holds no files" in capsys.readouterr().out


def test_a_missing_source_folder_fails_without_a_traceback(project, capsys):
    shutil.rmtree(project.recordings)
    assert run(project) != 0
    captured = capsys.readouterr()
    assert "no such folder" in captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err


def test_an_unknown_data_set_is_a_usage_error_with_a_hint(project, capsys):
    assert build.main(["tunes", "--datasets", str(project.datasets)]) == 2
    assert "did you mean tones" in capsys.readouterr().err


def test_a_wrong_yaml_is_a_usage_error_that_names_file_key_and_expectation(project, capsys):
    (project.datasets / "tones.yaml").write_text("source: {uri: x}\noutput: {uri: y}\naudio: {bits_per_sample: 20}\n")
    assert run(project) == 2
    shown = capsys.readouterr().err
    assert "tones.yaml" in shown
    assert "audio.bits_per_sample" in shown
    assert "16 or 24" in shown


def test_another_broken_yaml_does_not_stop_this_build(built):
    (built.datasets / "other.yaml").write_text("nonsense: true\n")
    assert run(built) == 0


def test_selecting_one_asset_leaves_the_others_as_they_are(project, instances):
    assert run(project, "--select", "catalog,audio_shards") == 0
    assert {name for name, _ in runs(instances[-1])} == {"catalog", "audio_shards"}
    assert not (project.output / "audio/sizes.json").exists()
    assert run(project, "--select", "tones/sizes_index") == 0
    assert sum(project.sizes().values()) == 6


def test_a_selection_in_dagsters_own_syntax_is_understood(project, instances):
    assert run(project, "--select", '+key:"tones/audio_shards"', "--select", "catalog") == 0
    assert {name for name, _ in runs(instances[-1])} == {"catalog", "audio_shards"}


@pytest.mark.parametrize("name", ["recordings", "tones/recordings"])
def test_selecting_the_recordings_runs_the_catalog_that_updates_them(project, instances, name):
    assert run(project, "--select", name) == 0
    assert [found for found, _ in runs(instances[-1])] == ["catalog"]


def test_selecting_an_unknown_asset_is_a_usage_error(project, capsys):
    assert run(project, "--select", "audio_shard") == 2
    assert "audio_shards" in capsys.readouterr().err


def test_a_recording_that_changes_while_it_is_built_is_scanned_again(project, monkeypatch):
    read = StorageResource.catalog

    def change_once(storage, config):
        catalog = read(storage, config)
        if not (project.output / "audio").exists():
            project.write_tone("tone002", hz=999)
        return catalog

    monkeypatch.setattr(StorageResource, "catalog", change_once)
    assert run(project) == 0
    assert sum(project.sizes().values()) == 6


def test_a_fault_names_asset_partition_and_reason(project, monkeypatch, capsys):
    def fail(*_, **__):
        raise BuildError("the disk is full; make room and build again")

    monkeypatch.setattr("assets.audio_shards.build_partition", fail)
    assert run(project) == 1
    shown = capsys.readouterr().out
    assert "failed tones/audio_shards [train-0000]: the disk is full; make room and build again" in shown


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_next_build_continues(project, home):
    for i in range(24):
        project.write_tone(f"long{i}", hz=300 + i, seconds=20)
    command = [sys.executable, str(ROOT / "build.py"), "tones", "--datasets", str(project.datasets)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 300
    while not list(project.output.rglob("*.tar")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    shown = child.communicate(timeout=300)[0]
    assert child.returncode == 130, shown
    assert "Traceback" not in shown
    assert run(project) == 0
    assert sum(project.sizes().values()) == 30


@pytest.mark.slow
def test_the_instance_on_disk_shows_every_asset_and_has_telemetry_off(project, home):
    assert run(project) == 0
    assert run(project) == 0
    with open_instance() as instance:
        assert not instance.telemetry_enabled
        for key in ("catalog", "sizes_index", "loader_smoke_test", "dataset_report"):
            assert instance.get_latest_materialization_event(dg.AssetKey(["tones", key])), key
        partitions = instance.get_materialized_partitions(dg.AssetKey(["tones", "audio_shards"]))
    assert partitions == set(project.config().layout().partition_keys())


@pytest.mark.slow  # matplotlib looks for fonts in a new home directory
def test_nothing_is_written_below_the_home_directory(project, home, tmp_path):
    home = tmp_path / "user"
    home.mkdir()
    command = [sys.executable, str(ROOT / "build.py"), "tones", "--datasets", str(project.datasets)]
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    assert not list(home.glob(".dagster*"))
