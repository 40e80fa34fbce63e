"""Decides where a data set's YAML, root and history of Dagster are."""

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.config.folder import root_of
from headrace.errors import ConfigError

_HISTORY = ".headrace/dagster"


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one data set.

    Attributes:
        yaml: the file that describes it.
        root: the folder to which relative URIs are relative.
        home: the home of Dagster's history if DAGSTER_HOME is not set.
    """

    yaml: Path
    root: Path
    home: Path


def place_of_file(file: Path, root: Path | None = None) -> Place:
    """The place of a data set that is named by its YAML file.

    Args:
        file: the YAML file.
        root: the root; None takes the nearest folder above the file that is the root of a project, else its own folder.

    Raises:
        ConfigError: there is no such file, it is not called `.yaml` or `.yml`, or the root is not a folder.
    """
    found = file.expanduser().absolute()
    if not found.is_file():
        raise ConfigError(f"{file}: no such file; name the YAML file of a data set (docs/config.md)")
    if found.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"{file}: expected a file called NAME.yaml, whose name is that of the data set")
    if root is not None and not root.is_dir():
        raise ConfigError(f"--root {root}: no such folder")
    return Place(found, root_of(found) if root is None else root.absolute(), found.parent / _HISTORY)


def home_path(default_home: Path) -> Path:
    """Dagster's home: that of `DAGSTER_HOME`, or `default_home` if that is not set."""
    return Path(os.environ.get("DAGSTER_HOME") or default_home).expanduser().resolve()
