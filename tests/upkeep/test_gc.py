"""`gc` beside builds that reuse old shards: no snapshot names a deleted file. test_gc_interleavings has all orders."""

import itertools
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest

from headrace.assemble import update
from headrace.config.partitioning import Partitioning
from headrace.errors import AlreadyExistsError, BuildError, FormatError
from headrace.format.shards.condemned import condemnations, condemned_paths
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.format.versioned_json import versioned_bytes
from headrace.stores.storage import LocalStorage
from headrace.upkeep.gc import collect, find_garbage
from tests.support.builds import check, twenty_clips
from tests.support.commands import runner

pytestmark = pytest.mark.medium

DAY_SECONDS = 86_400


@pytest.fixture
def reverting(tmp_path):
    """A project whose last change, three days old, was just reverted: the earlier shard fits again."""
    project = twenty_clips(tmp_path)
    project.build()
    project.put("clip04.wav", "other")
    project.build()
    for path in (project.folder / "output").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 3 * DAY_SECONDS,) * 2)
    project.put("clip04.wav", "clip04.wav", num_frames=304)
    return project


def garbage(project):
    return find_garbage(project.output, keep=1, now_seconds=time.time())


def missing(project, build):
    names = [shard.name for made in build.partitions.values() for shard in made.manifest.manifest.shards]
    return [name for name in names if not project.shards.exists(name)]


def test_a_shard_that_gc_removes_while_a_build_reuses_it_is_made_again(reverting, monkeypatch):
    commit = update.commit_manifest

    def after_gc(storage, manifest, previous, keys):
        collect(reverting.output, garbage(reverting))
        return commit(storage, manifest, previous, keys)

    monkeypatch.setattr(update, "commit_manifest", after_gc)
    build = reverting.build()
    assert build.written
    assert missing(reverting, build) == []


def test_gc_keeps_a_shard_that_a_build_has_reused_since_gc_looked(reverting):
    found = garbage(reverting)
    assert sum(path.endswith(".tar") for part in found for path in part.paths) == 1
    build = reverting.build()
    assert build.written == []
    collect(reverting.output, found)
    assert missing(reverting, build) == []


@pytest.fixture
def killed(reverting):
    """Project after a `gc` on another machine was killed with its deletion record written."""
    (found,) = garbage(reverting)
    condemn_elsewhere(reverting.shards, found.paths)
    return reverting


def condemn_elsewhere(storage, paths):
    about = {"host": "elsewhere", "kernel": "another", "process": 1, "is_locked": True}
    storage.create("condemned/0123456789abcdef.json", versioned_bytes("headrace_condemned", {**about, "paths": paths}))


def test_a_build_uses_no_name_on_the_deletion_record_of_a_killed_gc_and_its_shards_are_valid(
    killed, capsys, monkeypatch
):
    (old,) = [path for path in condemned_paths(killed.shards) if path.endswith(".tar")]
    build = check(killed, killed.build())
    (new,) = build.written
    assert new.rpartition("-")[0] == old.rpartition("-")[0]
    assert killed.shards.read(new) == killed.shards.read(old) + bytes(512)
    with tarfile.open(killed.folder / "output/audio" / new) as archive:
        assert len(archive.getnames()) == 2 * len(build.contents[new])
    assert runner(capsys, monkeypatch)("verify", killed.folder / "output")[0] == 0
    assert killed.build().written == []


def test_a_whole_partition_on_a_deletion_record_is_made_again(reverting):
    build = reverting.build()
    name = next(iter(build.contents))
    condemn_elsewhere(reverting.shards, [name])
    (made,) = check(reverting, reverting.build()).written
    assert made.rpartition("-")[0] == name.rpartition("-")[0] != made


def test_the_next_gc_reports_the_record_of_a_killed_one_and_removes_it_after_a_month(killed, capsys, monkeypatch):
    run = runner(capsys, monkeypatch)
    killed.build()
    (record,) = condemnations(killed.shards)
    assert record.path in run("gc", killed.folder / "output", "--keep", 1)[1].replace("\n", "")
    assert [found.path for found in condemnations(killed.shards)] == [record.path]
    os.utime(killed.folder / "output/audio" / record.path, (time.time() - 31 * DAY_SECONDS,) * 2)
    run("gc", killed.folder / "output")
    assert condemnations(killed.shards) == []


def test_a_gc_that_paused_for_more_than_a_day_deletes_nothing_more(reverting):
    found = garbage(reverting)
    before = {entry.path for entry in reverting.shards.list()}
    clock = itertools.count(time.time(), 0.4 * DAY_SECONDS)
    with pytest.raises(BuildError, match="for a day"):
        collect(reverting.output, found, clock=lambda: next(clock))
    after = {entry.path for entry in reverting.shards.list()}
    assert len(before - after) == 2
    assert [record.is_dead for record in condemnations(reverting.shards)] == [True]


def test_old_shards_of_a_young_snapshot_are_kept(reverting):
    reverting.build()  # names the three days old shard again
    reverting.put("clip05.wav", "other")
    reverting.build()
    found = garbage(reverting)
    assert [part.young for part in found] == [(3,)]
    collect(reverting.output, found)
    assert snapshot_numbers(reverting.shards) == [3, 4]
    for number in (3, 4):
        assert snapshot_faults_of_shards(reverting, number) == []


def snapshot_faults_of_shards(project, number):
    names = read_table(project.shards, read_snapshot(project.shards, number).snapshot).names()
    return [name for name in names if not project.shards.exists(name)]


def test_the_error_about_a_snapshot_of_missing_shards_says_what_to_do(reverting):
    before = snapshot_numbers(reverting.shards)
    build = reverting.build(commit=False)
    shards_of = {name: made.manifest for name, made in build.partitions.items()}
    name = next(
        name for made in build.partitions.values() if made.manifest.manifest != made.previous for name in made.reused
    )
    reverting.shards.delete(name)
    with pytest.raises(BuildError, match=r"shards of 1 partitions are missing.*build these partitions again"):
        commit_snapshot(reverting.shards, shards_of, "another catalog", {})
    assert snapshot_numbers(reverting.shards) == before
    assert [entry for entry in reverting.shards.list("snapshots/") if "proposed" in entry.path] == []
    assert check(reverting, reverting.build()).written == [name]


def test_a_number_that_was_committed_and_collected_during_a_pause_is_not_committed_again(reverting, monkeypatch):
    build = reverting.build()
    state = {name: made.manifest for name, made in build.partitions.items()}
    name = next(iter(build.contents))
    create = LocalStorage.create

    def after_others(storage, path, data):
        monkeypatch.setattr(LocalStorage, "create", create)
        storage.create("snapshots/00000009.json", storage.read("snapshots/00000003.json"))
        storage.delete(name)
        storage.create(path, data)

    monkeypatch.setattr(LocalStorage, "create", after_others)
    with pytest.raises(AlreadyExistsError, match=r"00000004\.json: this number was used before"):
        commit_snapshot(reverting.shards, state, "another catalog", {})
    assert 4 not in snapshot_numbers(reverting.shards)


def test_the_error_about_a_damaged_deletion_record_names_it(reverting):
    reverting.shards.write("condemned/x.json", b"{}")
    with pytest.raises(FormatError, match=r"condemned/x\.json"):
        reverting.build()


KILLED = """
import os, signal, sys
from headrace.format.shards.condemned import condemned
from headrace.stores.storage import open_storage
with condemned(open_storage(sys.argv[1]), sys.argv[2:]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_record_of_a_gc_killed_on_this_machine_is_ignored_and_removed_by_the_next_gc(
    reverting, capsys, monkeypatch
):
    (found,) = garbage(reverting)
    folder = reverting.folder / "output"
    command = [sys.executable, "-c", KILLED, str(folder / "audio"), *found.paths]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert [record.is_dead for record in condemnations(reverting.shards)] == [True]
    assert reverting.build().written == []  # the same names again
    runner(capsys, monkeypatch)("gc", folder)
    assert condemnations(reverting.shards) == []


def test_the_next_commit_removes_the_proposal_of_a_killed_writer(reverting):
    audio = reverting.shards
    audio.write("snapshots/00000002-0123456789ab.proposed", audio.read("snapshots/00000002.json"))
    audio.write("snapshots/00000003-0123456789ab.proposed", audio.read("snapshots/00000002.json"))
    assert reverting.build().snapshot.number == 3
    assert [entry.path for entry in audio.list("snapshots/") if "proposed" in entry.path] == []


def age(project, days=3):
    for path in (project.folder / "output").rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - days * DAY_SECONDS,) * 2)


@pytest.fixture
def dropped(tmp_path):
    """A project whose partitions `train-0001` and `test-0000` are no longer in the YAML, for three days."""
    project = twenty_clips(tmp_path)
    project.build()
    age(project)
    project.layout = Partitioning({"train": 1.0}, {"train": 1}, 4)
    project.build()
    age(project)
    return project


def test_nothing_of_partitions_that_were_taken_out_stays(dropped, capsys, monkeypatch):
    run = runner(capsys, monkeypatch)
    assert run("gc", dropped.folder / "output", "--keep", 1)[0] == 0
    named = read_table(dropped.shards, read_snapshot(dropped.shards).snapshot).names()
    assert sorted(path for path in dropped.files() if path.endswith(".tar")) == sorted(named)
    assert {path.split("/")[1] for path in dropped.files() if path.startswith("manifests/")} == {"train-0000"}
    assert run("verify", dropped.folder / "output")[0] == 0
    dropped.layout = Partitioning({"train": 0.8, "test": 0.2}, {"train": 2}, 4)
    assert len(check(dropped, dropped.build()).written) > 0
    assert run("verify", dropped.folder / "output")[0] == 0


def test_partitions_without_samples_stay(tmp_path):
    project = twenty_clips(tmp_path)
    project.layout = Partitioning({"train": 1.0}, {"train": 60}, 4)
    made = project.build()
    age(project)
    assert any(not build.manifest.manifest.shards for build in made.partitions.values())
    before = project.files()
    collect(project.output, garbage(project))
    assert project.files() == before


def test_partitions_that_the_next_snapshot_will_name_stay(dropped):
    dropped.layout = Partitioning({"train": 1.0}, {"train": 3}, 4)
    made = dropped.build(commit=False)
    age(dropped)
    collect(dropped.output, garbage(dropped))
    assert missing(dropped, made) == []
