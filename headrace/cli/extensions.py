"""Commands of installed packages: `headrace NAME` runs the entry point NAME of the group `headrace.commands`.

An entry point is a function that takes the arguments after NAME and returns the exit code. It has a parser of its own.
Its module is imported only if the command is asked for, because `build` and `ui` need Dagster.
"""

import warnings
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from headrace.errors import MissingDependencyError

GROUP = "headrace.commands"
_SUMMARIES = {
    "adopt": "recognise the layout of a corpus, and write the YAML that reads it",
    "build": "bring a data set up to date, from its YAML file",
    "ui": "open Dagster's web interface for one data set, with sensors",
}


def commands() -> dict[str, EntryPoint]:
    """The commands of installed packages by name, sorted."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def summary(point: EntryPoint) -> str:
    """The line of a command in `headrace --help`, without importing the command."""
    origin = "another package" if point.dist is None else point.dist.name
    return _SUMMARIES.get(point.name, f"a command of {origin}")


def run(point: EntryPoint, arguments: Sequence[str]) -> int:
    """Run a command. Returns its exit code.

    Raises:
        MissingDependencyError: a package that the command needs is not installed.
    """
    try:
        with warnings.catch_warnings():  # packages warn of what their own authors should change
            warnings.simplefilter("ignore")
            command = point.load()
    except ModuleNotFoundError as error:
        way_out = "pip install 'headrace[dagster]'" if point.name in _SUMMARIES else f"install what {point.value} needs"
        raise MissingDependencyError(f"the package {error.name} is not installed: {way_out}") from error
    return int(command(arguments))
