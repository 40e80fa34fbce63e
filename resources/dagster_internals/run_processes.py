"""The process that executes a run.

Uses: the metadata entry `pid` of the engine events that Dagster logs when a process starts a run or its steps
(`DagsterEvent.engine_event_data`), which the UI shows in the log of the run.
Why: a run whose process was killed together with its code server stays "in progress" for ever.
Missing: `DagsterRun` and `RunRecord` do not have the process id; run monitoring does not work with
`DefaultRunLauncher`, which cannot resume.
Fails first: `test_a_run_whose_process_died_is_marked_failed_and_counts_as_not_running`
(tests/sensors/test_dead_runs.py), and with real processes tests/live/test_live.py.
"""

from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True, slots=True)
class RunProcess:
    """The process of a run.

    Attributes:
        pid: its number.
        seen_seconds: when it logged, in seconds since 1970.
    """

    pid: int
    seen_seconds: float


def run_process(instance: dg.DagsterInstance, run_id: str) -> RunProcess | None:
    """The last process that logged its number for a run; None if none did."""
    for entry in reversed(list(instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT))):
        pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
        if pid is not None:
            return RunProcess(int(str(pid.value)), entry.timestamp)
    return None
