"""Old runs are removed from Dagster's history, except those that are still needed."""

import shutil
import time

import dagster as dg
import pytest

from headrace_dagster.assets.history import PastRun, forgettable, forgettable_runs
from headrace_dagster.assets.maintenance import history_job
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from headrace_dagster.resources.dagster_internals.run_removal import remove_run
from tests.support.daemons import Daemon
from tests.support.projects import Graph, Project

pytestmark = pytest.mark.medium

AUDIO = frozenset({("tones/audio_shards", "train-0000")})
CATALOG = frozenset({("tones/catalog", "")})


def past(run_id: str, made: frozenset[tuple[str, str]] = AUDIO, *, is_success: bool = True, at: float = 0.0) -> PastRun:
    return PastRun(run_id, at, made, is_success)


def gone(*runs: PastRun, needed: tuple[str, ...] = (), keep: int = 0) -> list[str]:
    return forgettable(runs, needed, keep=keep, before_seconds=100.0)


def test_old_runs_that_are_not_among_the_newest_can_be_removed():
    runs = [past("d", at=200), past("c", at=99), past("b"), past("a")]
    assert gone(*runs) == ["c", "b", "a"]
    assert gone(*runs, keep=3) == ["a"]
    assert gone(*runs, keep=9) == []


def test_needed_runs_are_kept():
    assert gone(past("b"), past("a"), needed=("a",)) == ["b"]


def test_a_failed_run_is_kept_until_a_later_run_succeeded():
    failed = past("failed", is_success=False)
    assert gone(failed, past("before")) == ["before"]
    assert gone(past("other", CATALOG), failed) == ["other"]
    assert gone(past("after", at=200), failed) == ["failed"]
    assert gone(past("after", AUDIO | CATALOG, at=200), failed) == ["failed"]


@pytest.fixture
def project(tmp_path, undrawn):
    """A data set whose history may lose all but what is needed."""
    project = Project(tmp_path)
    project.write_tones(6)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 2, "partitions": {"train": 2}})
    return project


def prune(daemon: Daemon, monkeypatch) -> set[str]:
    """Remove what may go in a year's time; the last record alone counts as recent. Returns the ids of what went."""
    monkeypatch.setattr("headrace_dagster.assets.history._RECENT", 1)
    daemon.project.write_yaml(schedules={"history": {"cron": "0 5 * * *", "keep": 0}})
    daemon.reload()
    runs = forgettable_runs(daemon.instance, daemon.project.dataset(), now_seconds=time.time() + 365 * 86_400)
    for run_id in runs:
        remove_run(daemon.instance, run_id)
    return set(runs)


@pytest.mark.slow
def test_after_old_runs_are_removed_nothing_is_stale_and_nothing_is_built_again(project, monkeypatch):
    daemon = Daemon(project)
    daemon.settle()
    for hz in (900, 901):
        daemon.project.write_tone("tone001", hz=hz)
        daemon.settle()
    before = {run.run_id for run in daemon.instance.get_runs()}
    gone = prune(daemon, monkeypatch)
    assert gone
    assert {run.run_id for run in daemon.instance.get_runs()} == before - gone
    assert daemon.settle() == []
    daemon.restart()
    assert daemon.settle() == []


@pytest.fixture
def graph(tmp_path, undrawn):
    """A data set that was scanned three times."""
    project = Project(tmp_path)
    project.write_tones(1)
    project.write_yaml(schedules={"history": {"cron": "0 5 * * *", "keep": 0}})
    graph = Graph(project)
    for _ in range(3):
        assert graph.scan().success
    return graph


def test_the_job_keeps_recent_runs(graph):
    before = {run.run_id for run in graph.instance.get_runs()}
    result = history_job(graph.project.dataset()).execute_in_process(instance=graph.instance)
    assert result.success
    assert {run.run_id for run in graph.instance.get_runs()} == before | {result.run_id}


def test_runs_of_other_data_sets_are_left_alone(graph, monkeypatch):
    monkeypatch.setattr("headrace_dagster.assets.history._RECENT", 1)
    # The first scan holds what is known of the partitions, the last one the catalog.
    assert len(forgettable_runs(graph.instance, graph.project.dataset(), now_seconds=4e9)) == 1
    other = ProjectDataset.named(graph.config.model_copy(update={"name": "ton"}))
    assert forgettable_runs(graph.instance, other, now_seconds=4e9) == []


@pytest.mark.slow
def test_the_history_of_a_data_set_that_always_changes_has_a_bound(project, monkeypatch, tmp_path):
    """In an instance on disk, at our settings."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copyfile(REPOSITORY_ROOT / "dagster_home/dagster.yaml", home / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        _grow_and_prune(Daemon(project, instance), home, monkeypatch)


def _grow_and_prune(daemon, home, monkeypatch):
    def num_bytes() -> int:
        return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())

    daemon.settle()
    sizes, growths = [num_bytes()], []
    for hz in range(900, 906):
        daemon.project.write_tone("tone001", hz=hz)
        runs = daemon.settle()
        growths.append((num_bytes() - sizes[-1]) / len(runs))
        prune(daemon, monkeypatch)
        sizes.append(num_bytes())
    assert sizes[-1] <= 1.02 * sizes[3], sizes
    assert growths[0] < 450_000, growths  # the first change also adds pages to the index of the history
    assert growths[1] < 360_000, growths  # so does the second, until the file has free pages
    assert max(growths[2:]) < 320_000, growths  # docs/operations.md gives 0.3 MB
    assert daemon.settle() == []
