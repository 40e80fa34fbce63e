"""Opens the Dagster instance of a folder for runs in this process.

Uses: `InstanceRef.from_dir` with overrides, the class path of `NoOpComputeLogManager`, and `CheckError`, which
Dagster raises for an invalid `dagster.yaml`.
Why: `build.py` prints its progress, and captured output would redirect this process's own terminal.
Missing: `DagsterInstance.get` and `from_config` read `dagster.yaml` as it is; neither takes overrides.
Fails first: tests/headrace_dagster/build_command/test_command.py.
"""

from pathlib import Path

import dagster as dg
from dagster._core.instance.ref import InstanceRef  # noqa: TID251 - see above
from dagster_shared.check.functions import CheckError

INVALID_HOME_ERRORS = (dg.DagsterError, CheckError)
"""Errors that `quiet_instance` raises for a `dagster.yaml` that Dagster rejects."""

_OVERRIDES = {
    "telemetry": {"enabled": False},
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    },
}


def quiet_instance(home: Path) -> dg.DagsterInstance:
    """The instance whose `dagster.yaml` is in `home`, without captured output and telemetry whatever that file says."""
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=_OVERRIDES))
