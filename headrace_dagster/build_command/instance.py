"""The Dagster instance in which a build is recorded."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
import yaml

from headrace.errors import ConfigError
from headrace_dagster.build_command.place import home_path
from headrace_dagster.resources.dagster_internals.instances import INVALID_HOME_ERRORS, quiet_instance
from headrace_dagster.resources.dagster_internals.open_databases import keep_databases_open
from headrace_dagster.resources.dagster_internals.run_databases import copy_run_databases

_SETTINGS = Path(__file__).with_name("dagster.yaml")


@contextmanager
def open_instance(default_home: Path) -> Iterator[dg.DagsterInstance]:
    """A block with the instance of `DAGSTER_HOME`, or of `default_home` if that is not set. Raises as `home_of`.

    After it, the variable is what it was: a process may build the data sets of several homes.
    """
    before = os.environ.get("DAGSTER_HOME")
    home = home_of(default_home)
    try:
        with _opened(home) as instance:
            yield instance
    finally:
        if before is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = before


def _opened(home: Path) -> dg.DagsterInstance:
    try:
        with _alone(home):
            instance = quiet_instance(home)
    except (OSError, yaml.YAMLError, *INVALID_HOME_ERRORS) as error:
        raise _unusable(home, error) from error
    copy_run_databases(instance)
    keep_databases_open(instance)
    return instance


def home_of(default_home: Path) -> Path:
    """The folder of `DAGSTER_HOME`, or `default_home`, to which the variable is then set. It is made if it is missing.

    A folder without a `dagster.yaml` gets our settings.

    Raises:
        ConfigError: the path is not a folder, cannot be written, or its `dagster.yaml` is invalid.
    """
    home = home_path(default_home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home):
            if not (home / "dagster.yaml").exists():  # the limits of runs and GPUs are there
                shutil.copyfile(_SETTINGS, home / "dagster.yaml")
    except OSError as error:
        raise _unusable(home, error) from error
    os.environ["DAGSTER_HOME"] = str(home)
    return home


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """A block that builds of one home enter one after the other.

    The first build of a home makes Dagster's databases. Dagster looks for their tables and then creates them, so of two
    first builds at once one would fail ("table runs already exists").
    """
    descriptor = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a network share without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unusable(home: Path, error: Exception) -> ConfigError:
    return ConfigError(f"DAGSTER_HOME {home}: cannot be used as Dagster's home: {error}")
