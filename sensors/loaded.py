"""Compares the files that describe data sets with what this code server loaded of them.

Every run loads the files again. So a sensor starts nothing while a file differs from what was loaded: the run would
make what the new file says, and the sensor would take that for wrong and start the next run.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from headrace.config.dataset import DatasetConfig
from headrace.config.folder import find_configs, yaml_files
from headrace.errors import ConfigError


class ConfigOrigin(Protocol):
    """Origin of the loaded configuration of a data set."""

    def why_held(self, config: DatasetConfig) -> str | None:
        """Why the sensors of a data set must not start anything; None where its file is as it was loaded."""


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """A folder with one YAML file for each data set.

    Attributes:
        path: the folder.
        root: the folder to which relative URIs in the files are relative.
        names: the data sets that are loaded; None for all.
    """

    path: Path
    root: Path
    names: tuple[str, ...] | None = None

    def configs_now(self) -> tuple[dict[str, DatasetConfig], dict[Path, str]]:
        """The data sets of the folder by name, and the error of each invalid file, or that the folder is missing."""
        return _configs_of(self, _digest(yaml_files(self.path)))

    def why_held(self, config: DatasetConfig) -> str | None:
        """See `ConfigOrigin`."""
        if self.configs_now()[0].get(config.name) == config:
            return None
        return (
            f"held back: the YAML file of {config.name} changed and is not loaded; headrace_definitions_changes says "
            "why"
        )


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that describes one data set (`defs.yaml`).

    Attributes:
        path: the file.
        digest: of its content when it was loaded.
    """

    path: Path
    digest: str

    @classmethod
    def now(cls, path: Path) -> "LoadedFile":
        """The file as it is now."""
        return cls(path, _digest([path]))

    def why_held(self, config: DatasetConfig) -> str | None:
        """See `ConfigOrigin`."""
        try:
            is_same = _digest([self.path]) == self.digest
        except OSError:
            is_same = False
        return None if is_same else f"held back: {self.path} of {config.name} changed; reload the code location"


@lru_cache(maxsize=1)
def _configs_of(folder: DatasetFolder, digest: str) -> tuple[dict[str, DatasetConfig], dict[Path, str]]:  # noqa: ARG001 - its files
    """Files of one digest are read once."""
    try:
        found = find_configs(folder.path, folder.root, folder.names)
    except ConfigError as error:
        return {}, {folder.path: str(error)}
    return {config.name: config for config in found.configs}, dict(found.invalid)


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
