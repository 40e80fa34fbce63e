"""A data set of six tones, and `build.py` on it."""

from pathlib import Path

import dagster as dg

import build
from tests.support.projects import Project


def six_tones(folder: Path) -> Project:
    project = Project(folder)
    project.write_tones(6)
    project.write_yaml()
    return project


def run(project: Project, *arguments: str) -> int:
    return build.main(["tones", "--datasets", str(project.datasets), *arguments])


def runs(instance: dg.DagsterInstance) -> list[tuple[str, str]]:
    """Asset and partition of all runs of an instance, oldest first; of a run of several assets, all by name."""
    return [
        ("/".join(key.path[1:]), run.tags.get("dagster/partition", ""))
        for run in reversed(list(instance.get_runs()))
        for key in sorted(run.asset_selection)
    ]
