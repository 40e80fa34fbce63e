"""Builds that are killed at random moments: the next build gives the same bytes, and readers see no partial state."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.format.indexes.index import index_name
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.stores.storage import LocalStorage
from headrace.upkeep.gc import MIN_AGE_SECONDS, find_leftovers, remove_leftovers
from tests.support import kill_child
from tests.support.drills.scale import rounds
from tests.support.fork_server import processes_with
from tests.support.projects import Project

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[2]
MANY = pytest.mark.parametrize("rounds", [1, pytest.param(rounds(6, 60), marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def processes():
    """Processes of a fork server that has done all imports: they start in milliseconds and share no threads with us."""
    return processes_with("tests.support.kill_child")


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    for i in range(40):
        project.write_tone(f"tone{i:03d}", hz=200 + i, seconds=0.5)
    (project.recordings / "broken.wav").write_bytes((project.recordings / "tone000.wav").read_bytes()[:900])
    project.write_yaml(shards={"samples_per_shard": 3, "partitions": {"train": 4, "test": 2}})
    return project


def finish(processes, project: Project) -> float:
    """Run one undisturbed build. Returns the seconds it took."""
    began = time.perf_counter()
    child = processes.Process(target=kill_child.build, args=(project.datasets / "tones.yaml",))
    child.start()
    child.join()
    assert child.exitcode == 0
    return time.perf_counter() - began


def kill(processes, project: Project, moments: random.Random, seconds: float) -> None:
    """Kill a build within this many seconds. If it ends earlier, kill the next one after less time."""
    was_running = False
    while not was_running:
        child = processes.Process(target=kill_child.build, args=(project.datasets / "tones.yaml",))
        child.start()
        child.join(moments.uniform(0, seconds))
        was_running = child.is_alive()
        child.kill()
        child.join()
        seconds /= 2


def visible(project: Project) -> dict[str, bytes]:
    """The files that readers can see: all except hidden files."""
    return {path: data for path, data in project.files().items() if "/." not in f"/{path}"}


def check_readers(project: Project) -> None:
    """Check that every snapshot is complete: its table, and each of its shards with its index."""
    audio = LocalStorage(project.output / "audio")
    for number in snapshot_numbers(audio):
        table = read_table(audio, read_snapshot(audio, number).snapshot)
        for name, size in zip(table.names(), table.num_bytes.tolist(), strict=True):
            assert audio.size(name) == size
            assert audio.exists(index_name(name))
    if audio.exists("sizes.json"):
        json.loads(audio.read("sizes.json"))


@MANY
def test_a_build_after_a_kill_at_any_moment_gives_the_bytes_of_an_undisturbed_one(processes, project, rounds):
    finish(processes, project)
    shutil.rmtree(project.output)
    seconds = finish(processes, project)
    wanted = visible(project)
    moments = random.Random(20)
    for _ in range(rounds):
        shutil.rmtree(project.output)
        for _ in range(moments.choice([1, 1, 2, 3])):
            kill(processes, project, moments, seconds)
            check_readers(project)
        finish(processes, project)
        assert visible(project) == wanted


@MANY
def test_an_update_killed_at_any_moment_leaves_the_old_snapshot_readable(processes, project, rounds, tmp_path):
    finish(processes, project)
    old = LocalStorage(project.output / "audio")
    fingerprint = read_snapshot(old).snapshot.fingerprint
    start = tmp_path / "start"
    shutil.copytree(project.output, start)
    for i in range(0, 40, 7):
        project.write_tone(f"tone{i:03d}", hz=900 + i, seconds=0.5)
    project.write_tone("new", seconds=0.5)
    (project.recordings / "tone011.wav").unlink()
    seconds = finish(processes, project)
    wanted = visible(project)
    moments = random.Random(21)
    for _ in range(rounds // 2):
        shutil.rmtree(project.output)
        shutil.copytree(start, project.output)
        kill(processes, project, moments, seconds)
        check_readers(project)
        assert read_snapshot(old, 1).snapshot.fingerprint == fingerprint
        finish(processes, project)
        assert visible(project) == wanted


@pytest.mark.slow
def test_build_py_after_repeated_kills_gives_the_bytes_of_an_undisturbed_build(project, tmp_path):
    def command(home: str) -> tuple[list[str], dict[str, str]]:
        words = [sys.executable, str(ROOT / "build.py"), "tones", "--datasets", str(project.datasets)]
        return words, {**os.environ, "DAGSTER_HOME": str(tmp_path / home)}

    words, environment = command("undisturbed")
    began = time.perf_counter()
    subprocess.run(words, env=environment, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    wanted = {path: data for path, data in visible(project).items() if path.endswith((".tar", ".idx", "sizes.json"))}
    shutil.rmtree(project.output)
    words, environment = command("disturbed")
    moments = random.Random(22)
    for _ in range(rounds(2, 8)):
        child = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.3, 1.0) * seconds)
        child.send_signal(signal.SIGKILL)
        child.wait()
        check_readers(project)
    subprocess.run(words, env=environment, check=True, capture_output=True)
    found = {path: data for path, data in visible(project).items() if path.endswith((".tar", ".idx", "sizes.json"))}
    assert found == wanted


def catalog_files(project: Project) -> dict[str, bytes]:
    """The files of the catalog, with the hidden ones."""
    folder = project.output / "catalog"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_scan_after_kills_opens_only_the_rest_and_stores_the_same_catalog(processes, project, tmp_path):
    log = tmp_path / "opened"
    arguments = (project.datasets / "tones.yaml", log)
    kill_child.scan_slowly(*arguments, 0.0)
    wanted = catalog_files(project)
    shutil.rmtree(project.output)
    log.write_text("")
    for num_opened in (12, 25):
        child = processes.Process(target=kill_child.scan_slowly, args=(*arguments, 0.05))
        child.start()
        while child.is_alive() and len(log.read_text().splitlines()) < num_opened:
            time.sleep(0.01)
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    kill_child.scan_slowly(*arguments, 0.0)
    opened = log.read_text().splitlines()
    assert set(opened) == {path.name for path in project.recordings.iterdir()}
    # files that were open, or just read, at the two kills
    assert len(opened) - len(set(opened)) <= 2 * kill_child.MOST_OPENED
    output = LocalStorage(project.output)  # a kill may leave the temporary file of a part, for a later gc
    remove_leftovers(output, find_leftovers(output, now_seconds=time.time() + 2 * MIN_AGE_SECONDS))
    assert catalog_files(project) == wanted
