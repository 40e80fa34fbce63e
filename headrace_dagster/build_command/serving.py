"""Starts `dagster dev` for one data set: the web interface on loopback, the daemon, and a code server."""

import os
import sys
from pathlib import Path
from typing import NoReturn

import dagster as dg

from headrace.config.dataset import load_config
from headrace_dagster.build_command.instance import home_of
from headrace_dagster.build_command.place import Place, place_of_file
from headrace_dagster.folder import dataset_definitions

FILE_VARIABLE = "HEADRACE_UI_FILE"
ROOT_VARIABLE = "HEADRACE_UI_ROOT"


def serve(place: Place, port: int) -> NoReturn:
    """Replace this process by `dagster dev`.

    Raises:
        ConfigError: the YAML file is invalid, or DAGSTER_HOME cannot be used.
    """
    load_config(place.yaml)
    home_of(place.home)
    os.environ |= {FILE_VARIABLE: str(place.yaml), ROOT_VARIABLE: str(place.root)}
    where = ["--host", "127.0.0.1", "--port", str(port)]
    code = ["--module-name", __name__, "--working-directory", str(place.root)]
    os.execv(sys.executable, [sys.executable, "-m", "dagster", "dev", *where, *code])  # noqa: S606 - no shell


@dg.definitions
def served_definitions() -> dg.Definitions:
    """The definitions of the data set that `serve` was asked for, which its code server loads from this module."""
    place = place_of_file(Path(os.environ[FILE_VARIABLE]), Path(os.environ[ROOT_VARIABLE]))
    return dataset_definitions(
        place.yaml.parent, root=place.root, executor=dg.in_process_executor, names=(place.yaml.stem,)
    )
