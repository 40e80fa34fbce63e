"""Marks runs whose process is gone as failed, and frees their pool slots.

Dagster's code server does this for the processes that it started, as long as it runs itself. This module does it for
runs that died together with their code server, and for runs of `build.py`. Only processes of this machine can be
checked: runs of `build.py` on another machine are left alone, and runs of another launcher are left to that launcher's
own monitoring.
"""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from headrace_dagster.assets.tags import HOST_TAG
from headrace_dagster.resources.dagster_internals.event_log import free_pool_slots
from headrace_dagster.resources.dagster_internals.run_processes import RunProcess, run_process

_CLOCK_SLACK_SECONDS = 60.0  # a clock that was set forward makes every process look younger than its run
_TICKS = os.sysconf("SC_CLK_TCK")
STARTING_SECONDS = 60.0
"""A run without a process this long after its launch never gets one."""


def bury_dead_runs(instance: dg.DagsterInstance, records: list[dg.RunRecord], now: datetime) -> set[str]:
    """Mark runs in progress whose process is gone as failed. Returns their ids."""
    if not isinstance(instance.run_launcher, dg.DefaultRunLauncher):
        return set()
    dead = {record.dagster_run.run_id: reason for record in records if (reason := _death(instance, record, now))}
    for record in records:
        run = record.dagster_run
        if run.run_id in dead:
            instance.report_run_failed(run, message=dead[run.run_id])
            free_pool_slots(instance, run.run_id)
    return set(dead)


def _death(instance: dg.DagsterInstance, record: dg.RunRecord, now: datetime) -> str | None:
    """Why a run is dead; None while its process may be running."""
    run = record.dagster_run
    if run.tags.get(HOST_TAG, here := socket.gethostname()) != here:
        return None
    if run.status not in {dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING}:
        return None
    process = run_process(instance, run.run_id)
    if process is None:
        age = (now - record.update_timestamp.replace(tzinfo=UTC)).total_seconds()
        is_lost = run.status == dg.DagsterRunStatus.STARTING and age > STARTING_SECONDS
        return f"no process of this run was seen {age:.0f} s after it was launched" if is_lost else None
    if _lives(process):
        return None
    return f"the process of this run (pid {process.pid}) is gone; it was killed or the machine restarted"


def _lives(process: RunProcess) -> bool:
    """Whether the process still runs. Another process that has its number by now began after it logged."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return not Path("/proc/self/stat").exists()  # without /proc, every process counts as running
    began = _boot_seconds() + int(fields[19]) / _TICKS
    return fields[0] != "Z" and began <= process.seen_seconds + _CLOCK_SLACK_SECONDS


def _boot_seconds() -> float:
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return float(line.split()[1])
