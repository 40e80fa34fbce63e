"""The YAML files of a folder: the data sets that they describe, and what is wrong with the others.

Owns what can only be seen with all files at hand: two of one name, two that write to one output. One wrong file must
not keep the others from being built, so faults are values here; whoever needs one file alone asks `config`.
"""

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.config import DatasetConfig, load_config
from headrace.errors import ConfigError


@dataclass(frozen=True, slots=True)
class FoundConfigs:
    """What a folder holds.

    Attributes:
        configs: the data sets that can be used, by name.
        faults: one message for each file that cannot, naming it.
    """

    configs: tuple[DatasetConfig, ...]
    faults: tuple[str, ...]


def yaml_files(folder: Path) -> list[Path]:
    """The files that describe data sets, sorted by name."""
    return sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])


def find_configs(folder: Path, root: Path) -> FoundConfigs:
    """The data sets of a folder; relative URIs in its files are below `root`.

    Raises:
        ConfigError: the folder is not there.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of data sets; set HEADRACE_DATASETS or pass --datasets")
    found, faults = load_each(folder)
    clashes = {path: fault for path, config in found.items() if (fault := clash(path, config, found, root)) is not None}
    usable = [config for path, config in found.items() if path not in clashes]
    return FoundConfigs(tuple(sorted(usable, key=lambda config: config.name)), (*faults, *clashes.values()))


def load_each(folder: Path) -> tuple[dict[Path, DatasetConfig], list[str]]:
    """The files that can be read each by itself, and a message for every other one."""
    found: dict[Path, DatasetConfig] = {}
    faults = []
    for path in yaml_files(folder):
        try:
            found[path] = load_config(path)
        except ConfigError as error:
            faults.append(str(error))
    return found, faults


def clash(path: Path, config: DatasetConfig, others: dict[Path, DatasetConfig], root: Path) -> str | None:
    """What two files must not share: their name, or where they write to; relative URIs are below `root`."""
    for other, theirs in others.items():
        if other == path:
            continue
        if theirs.name == config.name:
            return f"{path}: {other.name} is a data set of the same name; rename one of them"
        if _plain(theirs.output.uri, root) == _plain(config.output.uri, root):
            return (
                f"{path}: output.uri {config.output.uri} is that of {other.name} as well, and each would undo what the "
                "other wrote; give one of them another output"
            )
    return None


def _plain(uri: str, root: Path) -> str:
    """One spelling of a path or URL: links are followed."""
    url = urlsplit(uri)
    if url.scheme == "file":
        return os.path.realpath(unquote(url.path))
    scheme, mark, path = uri.rpartition("://")
    if mark:
        return scheme + mark + posixpath.normpath(path)
    path = os.path.expanduser(path)  # noqa: PTH111 - Path would take ./~ for ~, and fail on ~nobody
    return os.path.realpath(root / path)
