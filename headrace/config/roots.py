"""The root of a data set: the folder to which its relative URIs are relative, and from which its code is imported."""

import sys
import tomllib
from pathlib import Path


def root_of(yaml: Path) -> Path:
    """The nearest folder above a YAML file that is the root of a Dagster project, or else the file's own folder."""
    own = yaml.expanduser().absolute().parent
    return next((folder for folder in (own, *own.parents) if _is_project(folder)), own)


def make_importable(root: Path) -> None:
    """Let modules of the user be imported from a folder, behind everything that is installed."""
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
