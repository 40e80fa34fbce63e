"""Runs whose process is gone: marked failed, their pool slots freed.

Dagster's code server does this for processes that it started while it lives; this is for those that died with it, and
for `build.py`'s. A run tells its process by the engine events that Dagster logs at its start. Only processes of this
machine can be judged: a `build.py` elsewhere is let be, and runs of another launcher are left to that launcher's own
monitoring.
"""

import os
import re
import socket
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.launcher import DefaultRunLauncher

from assets.tags import HOST_TAG

_PID = re.compile(r"\(pid: (\d+)\)")
_CLOCK_SLACK_SECONDS = 60.0  # a clock that is set forward makes every process younger than its run
_TICKS = os.sysconf("SC_CLK_TCK")
STARTING_SECONDS = 60.0
"""A run that has no process this long after it was launched never gets one."""


def bury_dead_runs(instance: dg.DagsterInstance, records: list[dg.RunRecord], now: datetime) -> set[str]:
    """Mark runs in progress whose process is gone as failed. Returns their ids."""
    if not isinstance(instance.run_launcher, DefaultRunLauncher):
        return set()
    dead = {record.dagster_run.run_id: reason for record in records if (reason := _death(instance, record, now))}
    for record in records:
        run = record.dagster_run
        if run.run_id in dead:
            instance.report_run_failed(run, message=dead[run.run_id])
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return set(dead)


def _death(instance: dg.DagsterInstance, record: dg.RunRecord, now: datetime) -> str | None:
    """Why a run is dead; None while it may live."""
    run = record.dagster_run
    if run.tags.get(HOST_TAG, here := socket.gethostname()) != here:
        return None
    if run.status not in {dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING}:
        return None
    events = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    started = [(int(match[1]), event.timestamp) for event in events if (match := _PID.search(event.message or ""))]
    if not started:
        age = (now - record.update_timestamp.replace(tzinfo=UTC)).total_seconds()
        is_lost = run.status == dg.DagsterRunStatus.STARTING and age > STARTING_SECONDS
        return f"no process of this run was seen {age:.0f} s after it was launched" if is_lost else None
    pid, seen = started[-1]
    return (
        None
        if _lives(pid, seen)
        else f"the process of this run (pid {pid}) is gone; it was killed or the machine restarted"
    )


def _lives(pid: int, seen: float) -> bool:
    """Whether the process that logged at `seen` (Unix seconds) still runs; another one may have its number by now."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return not Path("/proc/self/stat").exists()  # no such file system here: nothing can be said
    return fields[0] != "Z" and _boot_seconds() + int(fields[19]) / _TICKS <= seen + _CLOCK_SLACK_SECONDS


def _boot_seconds() -> float:
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return float(line.split()[1])
