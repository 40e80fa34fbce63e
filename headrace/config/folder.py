"""Loads all data set YAML files of a folder and collects the errors of invalid files.

One invalid file must not prevent the others from being built, so errors are returned as values here. Two files with one
name, or with one output, are errors as well. `headrace.config.dataset.load_config` loads a single file.
"""

import os
import posixpath
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.config.dataset import DatasetConfig, load_config
from headrace.encoders.weights import look_below
from headrace.errors import ConfigError
from headrace.stores.file_urls import is_file_url, path_of_file_url


@dataclass(frozen=True, slots=True)
class FoundConfigs:
    """The data sets of a folder.

    Attributes:
        configs: the valid data sets, sorted by name.
        invalid: each invalid file, and the error message, which names the file.
    """

    configs: tuple[DatasetConfig, ...]
    invalid: Mapping[Path, str]

    @property
    def faults(self) -> tuple[str, ...]:
        """The error messages."""
        return tuple(self.invalid.values())


def yaml_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, sorted by name."""
    return sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])


def find_configs(folder: Path, root: Path, names: Collection[str] | None = None) -> FoundConfigs:
    """Load the data sets of a folder. Relative URIs in its files are relative to `root`.

    Args:
        folder: the YAML files.
        root: the folder to which relative URIs are relative.
        names: only files of these names are read; None for all.

    Raises:
        ConfigError: the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of data sets; set HEADRACE_DATASETS or pass --datasets")
    found, invalid = load_each(folder, names)
    clashes = {path: fault for path, config in found.items() if (fault := clash(path, config, found, root)) is not None}
    usable = [config for path, config in found.items() if path not in clashes]
    return FoundConfigs(tuple(sorted(usable, key=lambda config: config.name)), invalid | clashes)


def load_each(folder: Path, names: Collection[str] | None = None) -> tuple[dict[Path, DatasetConfig], dict[Path, str]]:
    """Load each file by itself. Returns the valid data sets, and the error message of every other file.

    Args:
        folder: the YAML files.
        names: only files of these names are read; None for all.
    """
    found: dict[Path, DatasetConfig] = {}
    invalid: dict[Path, str] = {}
    for path in (path for path in yaml_files(folder) if names is None or path.stem in names):
        try:
            found[path] = load_config(path)
        except ConfigError as error:
            invalid[path] = str(error)
    return found, invalid


def clash(path: Path, config: DatasetConfig, others: dict[Path, DatasetConfig], root: Path) -> str | None:
    """Error message if another file has the same name or output, else None. Relative URIs are relative to `root`."""
    for other, theirs in others.items():
        if other == path:
            continue
        if theirs.name == config.name:
            return f"{path}: {other.name} describes a data set with the same name; rename one of the files"
        if _plain(theirs.output.uri, root) == _plain(config.output.uri, root):
            return (
                f"{path}: output.uri {config.output.uri} is also the output of {other.name}, and each data set would "
                "overwrite the other; change one of the outputs"
            )
    return None


def _plain(uri: str, root: Path) -> str:
    """A canonical spelling of a path or URL; symbolic links are resolved."""
    if is_file_url(uri):
        return os.path.realpath(path_of_file_url(uri))
    scheme, mark, path = uri.rpartition("://")
    if mark:
        return scheme + mark + posixpath.normpath(path)
    path = os.path.expanduser(path)  # noqa: PTH111 - Path reads ./~ as ~, and fails on ~nobody
    return os.path.realpath(root / path)


def root_of(yaml: Path) -> Path:
    """The nearest folder above a YAML file that is the root of a Dagster project, or else the file's own folder."""
    own = yaml.expanduser().absolute().parent
    return next((folder for folder in (own, *own.parents) if _is_project(folder)), own)


def use_project(root: Path) -> None:
    """Let settings name modules and files below a project's root; modules behind everything that is installed."""
    look_below(root)
    if str(root) not in sys.path:
        sys.path.append(str(root))


def _is_project(folder: Path) -> bool:
    return (folder / "workspace.yaml").is_file() or _has_dg(folder / "pyproject.toml")


def _has_dg(path: Path) -> bool:
    """Whether a `pyproject.toml` has the table `[tool.dg]`; False for a missing or invalid file."""
    try:
        tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool")
    except (OSError, ValueError):
        return False
    return isinstance(tool, dict) and "dg" in tool
