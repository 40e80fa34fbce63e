"""The Dagster instance that a build is recorded in."""

import os
import shutil
from pathlib import Path

import dagster as dg
import yaml
from dagster._core.instance.ref import InstanceRef  # the only way to open an instance with overrides
from dagster_shared.check.functions import CheckError

from headrace.errors import ConfigError
from resources.storage import REPOSITORY_ROOT

_DEFAULT_HOME = REPOSITORY_ROOT / "dagster_home"
# Captured output would redirect this process's own terminal; telemetry stays off whatever the home says.
_OVERRIDES = {
    "telemetry": {"enabled": False},
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    },
}


def open_instance() -> dg.DagsterInstance:
    """The instance of `DAGSTER_HOME`, or of the repository's `dagster_home/`.

    A home without a `dagster.yaml` gets ours.

    Raises:
        ConfigError: the home is no folder, cannot be written, or its `dagster.yaml` is wrong.
    """
    home = Path(os.environ.get("DAGSTER_HOME") or _DEFAULT_HOME).expanduser().resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "dagster.yaml").exists():  # the limits of runs and GPUs are there
            shutil.copyfile(_DEFAULT_HOME / "dagster.yaml", home / "dagster.yaml")
        os.environ["DAGSTER_HOME"] = str(home)
        return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=_OVERRIDES))
    except (OSError, yaml.YAMLError, CheckError, dg.DagsterError) as error:
        raise ConfigError(f"DAGSTER_HOME {home}: cannot be used as Dagster's home: {error}") from error
