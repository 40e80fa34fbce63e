"""Dagster on PostgreSQL, as docs/operations.md describes it: `dagster.yaml` with four more lines."""

import os
import re
import signal
import subprocess
import sys
import time

import dagster as dg
import pytest

from headrace.format.snapshots.snapshots import snapshot_numbers
from headrace.stores.storage import open_storage
from headrace_dagster.assets.history import forgettable_runs
from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from headrace_dagster.resources.dagster_internals.run_removal import remove_run
from tests.support.live import DagsterDev, Run
from tests.support.postgres import find_server, postgres_url
from tests.support.projects import Project

pytest.importorskip("dagster_postgres", reason="the extra `postgres` is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(find_server() is None, reason="no PostgreSQL server, or no user to run it as"),
]

VARIABLE = "DAGSTER_POSTGRES_URL"
WAIT_SECONDS = 240


class Live:
    """A small data set with a server over it, whose instance is in the database."""

    def __init__(self, folder, url) -> None:
        self.project = Project(folder)
        self.project.write_tones(8)
        self.project.write_yaml(latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}])
        self.server = DagsterDev(folder, self.project.datasets, _settings_of_the_docs(), {VARIABLE: url})

    def runs_until(self, snapshot: int) -> list[Run]:
        """Wait for a snapshot and the end of all runs."""
        audio = open_storage(self.project.output / "audio")
        self.server.wait(lambda: snapshot in snapshot_numbers(audio), WAIT_SECONDS, f"snapshot {snapshot}")
        self.server.wait(lambda: all(run.is_finished for run in self.server.runs()), WAIT_SECONDS, "the end of runs")
        return self.server.runs()


def _settings_of_the_docs() -> str:
    text = (REPOSITORY_ROOT / "docs/operations.md").read_text()
    return "\n" + next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "postgres:" in block)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with postgres_url(find_server()) as url:
        live = Live(tmp_path_factory.mktemp("postgres"), url)
        live.server.start()
        yield live
        live.server.stop()


def test_the_first_build_and_a_change_need_no_click(live):
    first = live.runs_until(1)
    assert {run.status for run in first} == {"SUCCESS"}
    assert not list(live.server.home.rglob("*.db"))
    live.project.write_tone("tone004", hz=999)
    runs = live.runs_until(2)[len(first) :]
    assert [run.status for run in runs] == ["SUCCESS", "SUCCESS"]
    assert live.server.unhealthy() == []


def test_a_run_whose_process_is_killed_is_marked_failed_and_repeated(live, monkeypatch):
    monkeypatch.setenv(VARIABLE, live.server.environment[VARIABLE])
    known = len(live.server.runs())

    building: list[Run] = []

    def is_building() -> bool:
        building.extend(run for run in live.server.runs()[known:] if run.status == "STARTED" and run.partition)
        return bool(building)

    live.project.write_tone("tone004", hz=888, seconds=60)
    live.server.wait(is_building, WAIT_SECONDS, "a run to start")
    with dg.DagsterInstance.from_config(str(live.server.home)) as instance:
        events = instance.all_logs(building[0].run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        pid = next(int(match[1]) for event in events if (match := re.search(r"\(pid: (\d+)\)", event.message)))
    os.kill(pid, signal.SIGKILL)
    runs = live.runs_until(3)[known:]
    assert [run.status for run in runs] == ["SUCCESS", "FAILURE", "SUCCESS"]


def test_old_runs_are_removed_and_nothing_is_built_again(live, monkeypatch):
    monkeypatch.setenv(VARIABLE, live.server.environment[VARIABLE])
    monkeypatch.setattr("headrace_dagster.assets.history._RECENT", 1)
    live.project.write_yaml(schedules={"history": {"cron": "0 5 * * *", "keep": 0}})
    before = len(live.server.runs())
    with dg.DagsterInstance.from_config(str(live.server.home)) as instance:
        old = forgettable_runs(instance, live.project.dataset(), now_seconds=time.time() + 365 * 86_400)
        for run_id in old:
            remove_run(instance, run_id)
    time.sleep(15)  # two rounds of the sensors
    assert 0 < len(old) == before - len(live.server.runs())


def test_build_py_finds_everything_done(live):
    known = len(live.server.runs())
    command = [sys.executable, "build.py", "tones", "--datasets", str(live.project.datasets)]
    built = subprocess.run(
        command,
        cwd=REPOSITORY_ROOT,
        env=live.server.environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "tones: nothing changed: " in built.stdout
    assert [sorted(run.assets) for run in live.server.runs()[known:]] == [["catalog"]]
