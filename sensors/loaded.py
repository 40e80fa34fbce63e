"""What the folder of YAML files holds now, beside what this code server loaded of it.

Owns that comparison. Every run loads the files anew, so nothing may start from settings that are no longer there.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

from headrace.config import DatasetConfig
from headrace.config_folder import find_configs, yaml_files
from headrace.errors import ConfigError
from resources.storage import REPOSITORY_ROOT


def configs_now(folder: Path) -> tuple[dict[str, DatasetConfig], tuple[str, ...]]:
    """The data sets of a folder by name, and what is wrong with the other files, or with the folder."""
    return _configs_of(folder, _digest(folder))


def why_held(config: DatasetConfig, folder: Path | None) -> str | None:
    """Why nothing of a data set may start: its file is not as it was loaded; None if it is, or nobody knows its folder.

    Without it, a run would make what the new file asks for, which is never what a sensor with the old one wants.
    """
    if folder is None or configs_now(folder)[0].get(config.name) == config:
        return None
    return f"held back: the YAML file of {config.name} changed and is not loaded; definitions_changes says why"


@lru_cache(maxsize=1)
def _configs_of(folder: Path, digest: str) -> tuple[dict[str, DatasetConfig], tuple[str, ...]]:  # noqa: ARG001 - its files
    """Files of one digest are read once."""
    try:
        found = find_configs(folder, REPOSITORY_ROOT)
    except ConfigError as error:
        return {}, (str(error),)
    return {config.name: config for config in found.configs}, found.faults


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in yaml_files(folder):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
