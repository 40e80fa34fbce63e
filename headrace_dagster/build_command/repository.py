"""The folders of this repository."""

import difflib
import os
from pathlib import Path

from headrace.errors import ConfigError
from headrace_dagster.build_command.place import Place

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
DATASETS_VARIABLE = "HEADRACE_DATASETS"


def datasets_folder() -> Path:
    """The folder of YAML files, one for each data set."""
    return REPOSITORY_ROOT / os.environ.get(DATASETS_VARIABLE, "datasets")


def place_of_name(name: str, folder: Path | None) -> Place:
    """The place of a data set of this repository.

    Args:
        name: name of the data set.
        folder: folder of the YAML files; None for the default one.

    Raises:
        ConfigError: there is no such folder or data set.
    """
    return Place(_yaml_of(name, folder or datasets_folder()), REPOSITORY_ROOT, REPOSITORY_ROOT / "dagster_home")


def _yaml_of(name: str, datasets: Path) -> Path:
    if not datasets.is_dir():
        raise ConfigError(f"{datasets}: no such folder of data sets; set HEADRACE_DATASETS or pass --datasets")
    for suffix in (".yaml", ".yml"):
        if (path := datasets / (name.removesuffix(suffix) + suffix)).is_file():
            return path
    known = sorted(path.stem for path in datasets.glob("*.y*ml"))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ConfigError(f"{name}: no such data set; {hint}{datasets} has {', '.join(known) or 'no YAML files'}")
