"""The Dagster instance in which a build is recorded."""

import os
import shutil
from pathlib import Path

import dagster as dg
import yaml

from headrace.errors import ConfigError
from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from headrace_dagster.resources.dagster_internals.instances import INVALID_HOME_ERRORS, quiet_instance
from headrace_dagster.resources.dagster_internals.open_databases import keep_databases_open
from headrace_dagster.resources.dagster_internals.run_databases import copy_run_databases

_DEFAULT_HOME = REPOSITORY_ROOT / "dagster_home"


def open_instance() -> dg.DagsterInstance:
    """The instance of `DAGSTER_HOME`, or of the repository's `dagster_home/`.

    A folder without a `dagster.yaml` gets a copy of the repository's.

    Raises:
        ConfigError: the path is not a folder, cannot be written, or its `dagster.yaml` is invalid.
    """
    home = Path(os.environ.get("DAGSTER_HOME") or _DEFAULT_HOME).expanduser().resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "dagster.yaml").exists():  # the limits of runs and GPUs are there
            shutil.copyfile(_DEFAULT_HOME / "dagster.yaml", home / "dagster.yaml")
        os.environ["DAGSTER_HOME"] = str(home)
        instance = quiet_instance(home)
    except (OSError, yaml.YAMLError, *INVALID_HOME_ERRORS) as error:
        raise ConfigError(f"DAGSTER_HOME {home}: cannot be used as Dagster's home: {error}") from error
    copy_run_databases(instance)
    keep_databases_open(instance)
    return instance
