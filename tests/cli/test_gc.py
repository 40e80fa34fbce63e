"""`headrace gc` as a user runs it: what it deletes and what it keeps."""

import os
import time

import pytest

from headrace import cli
from headrace.config.operation import GcConfig
from headrace.format.indexes.index import index_name
from headrace.format.manifests.manifests import keys_path, newest_manifests
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.stores.storage import LocalStorage
from tests.support.builds import Project
from tests.support.commands import runner
from tests.support.streaming.corpus import clips, write_dataset

pytestmark = pytest.mark.medium


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


def age(folder, days=2):
    """Set the times of all files to an old date."""
    long_ago = time.time() - days * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))


@pytest.fixture
def history(tmp_path):
    """An output with five snapshots, each with one more changed recording."""
    project = Project(tmp_path)
    for number in range(12):
        project.put(f"clip{number:02d}.wav")
    project.build()
    for number in range(4):
        project.put(f"clip{number:02d}.wav", seed=f"changed {number}")
        project.build()
    (project.folder / "output" / "audio" / ".x.tar.0123.headrace-tmp").write_bytes(b"half")
    return project


def test_gc_removes_files_that_no_kept_snapshot_names_and_kept_snapshots_stay_complete(run, history):
    output = history.folder / "output"
    age(output)
    audio = LocalStorage(output / "audio")
    before = {entry.path for entry in audio.list()}
    code, out, _ = run("gc", output, "--keep", 2, "--dry-run")
    assert code == 0
    assert "would be removed" in out
    assert f"{audio.uri}/.x.tar.0123.headrace-tmp" in out
    assert {entry.path for entry in audio.list()} == before
    run("gc", output, "--keep", 2)
    assert snapshot_numbers(audio) == [4, 5]
    named = set()
    parts = {part.path for number in (4, 5) for part in read_snapshot(audio, number).snapshot.parts}
    assert {entry.path for entry in audio.list("snapshots/") if entry.path.endswith(".shards")} == parts
    newest = newest_manifests(audio).items()
    keys = {keys_path(name, found.number, found.manifest.keys) for name, found in newest if found.manifest.keys}
    assert {entry.path for entry in audio.list("manifests/") if entry.path.endswith(".keys")} == keys
    for number in (4, 5):
        names = read_table(audio, read_snapshot(audio, number).snapshot).names()
        assert all(audio.exists(name) and audio.exists(index_name(name)) for name in names)
        named |= set(names)
    assert {entry.path for entry in audio.list() if entry.path.endswith(".tar")} == named
    assert not list((output / "audio").glob(".*.headrace-tmp"))
    assert run("verify", output)[0] == 0
    after = {entry.path for entry in audio.list()}
    run("gc", output, "--keep", 2)
    assert {entry.path for entry in audio.list()} == after


def test_a_build_after_gc_reuses_everything(run, history):
    age(history.folder / "output")
    run("gc", history.folder / "output", "--keep", 1)
    result = history.build()
    assert (result.written, result.is_new) == ([], False)
    history.put("clip05.wav", seed="again")
    result = history.build()
    assert len(result.written) == 1
    assert result.snapshot.number == 6


def test_gc_keeps_files_younger_than_a_day_and_reports_it(run, history):
    output = history.folder / "output"
    before = sorted(output.rglob("*"))
    assert "more files are younger than a day" in run("gc", output, "--keep", 1)[1]
    assert sorted(output.rglob("*")) == before


def test_gc_now_removes_files_of_a_store_whose_clock_is_ahead(run, history):
    output = history.folder / "output"
    age(output, days=-0.1)
    out = run("gc", output, "--keep", 1, "--now", "--no-build-is-running")[1]
    assert "younger than a day" not in out
    audio = LocalStorage(output / "audio")
    (last,) = snapshot_numbers(audio)
    named = set(read_table(audio, read_snapshot(audio, last).snapshot).names())
    assert {entry.path for entry in audio.list() if entry.path.endswith(".tar")} == named


def test_gc_by_command_and_by_schedule_keeps_the_same_number_of_snapshots():
    assert cli.parser().parse_args(["gc", "x"]).keep == GcConfig().keep


def test_gc_keeps_shards_of_the_newest_manifests_that_no_snapshot_names_yet(run, history):
    from headrace.catalog.stored.parts import existing_catalog

    age(history.folder / "output")
    audio = history.shards
    names = {s.name for numbered in newest_manifests(audio).values() for s in numbered.manifest.shards}
    for number in snapshot_numbers(audio)[-1:]:
        audio.delete(f"snapshots/{number:08d}.json")
    run("gc", history.folder / "output", "--keep", 1)
    assert all(audio.exists(name) for name in names)
    assert existing_catalog(history.output).recordings().height == 12


def test_gc_keeps_the_audio_that_kept_latents_were_made_from(run, tmp_path):
    write_dataset(tmp_path, {"train": clips(8)}, latents=True)
    for count in (9, 10, 11):
        write_dataset(tmp_path, {"train": clips(count)})
    age(tmp_path)
    run("gc", tmp_path, "--keep", 1)
    assert snapshot_numbers(LocalStorage(tmp_path / "audio")) == [1, 4]
    assert run("verify", tmp_path)[0] == 0


def test_gc_takes_only_the_root_of_an_output(run, history):
    code, _, err = run("gc", history.folder / "output" / "audio")
    assert (code, "name the output itself" in err) == (1, True)


def test_gc_removes_no_foreign_files(run, history):
    output = history.folder / "output"
    foreign = output / "audio" / "README.md"
    foreign.write_text("mine")
    age(output)
    run("gc", output, "--keep", 1)
    assert foreign.exists()
