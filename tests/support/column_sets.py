"""Shared by test_column_sets and the tests beside it."""

import polars as pl

from tests.support.builds import Project


def described(project: Project, **columns: list[object]) -> Project:
    """The project with a metadata table that has a row for each of its twenty clips."""
    paths = [f"clip{number:02d}.wav" for number in range(20)]
    project.metadata = pl.DataFrame({"path": paths, **columns})
    return project
