"""Finds the files that rows name by paths relative to the folder of their table's file. Pure."""

import posixpath
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from headrace.catalog.rows.path_spelling import tidy_paths
from headrace.catalog.rows.row_columns import path_columns, row_name
from headrace.catalog.tables.buckets import hash_of_paths
from headrace.catalog.tables.row_origins import TableFileName
from headrace.errors import ConfigError
from headrace.path_templates import TABLE_FOLDER, TABLE_STEM

AreFiles = Callable[[pl.Series], pl.Series]
"""Returns whether each path is a file of the source."""

_NEAR = "\0near"
_LARGEST = np.iinfo(np.uint64).max
_Hashes = np.ndarray[Any, np.dtype[np.uint64]]


class ListedPaths:
    """The paths of a source, as a hash of 8 bytes for each file."""

    def __init__(self) -> None:
        """None yet."""
        self._parts: list[_Hashes] = []
        self._sorted: _Hashes | None = None

    def add(self, paths: pl.Series) -> None:
        """Add paths of files, before the first question."""
        self._parts.append(hash_of_paths(paths).to_numpy())

    def are_in(self, paths: pl.Series) -> pl.Series:
        """Whether each path is one of these; false for null. Two paths with one hash are taken to be one."""
        if self._sorted is None:
            # The largest number is there so that each search ends at an entry.
            self._sorted = np.sort(np.concatenate([*self._parts, np.array([_LARGEST], np.uint64)]))
            self._parts = []
        hashes = hash_of_paths(paths).to_numpy()
        found = self._sorted[self._sorted.searchsorted(hashes)] == hashes
        return pl.Series(found, dtype=pl.Boolean) & paths.is_not_null()


def is_near(file: TableFileName, root: str) -> bool:
    """Whether paths relative to the folder of a file may be files of the source, and others than those below the root.

    So it is if the folder is below the root, or the root below the folder.
    """
    folder, top = f"{_plain(file.folder)}/", f"{_plain(root)}/"
    return bool(file.folder and root) and folder != top and (folder.startswith(top) or top.startswith(folder))


def names_of_file(file: TableFileName, root: str) -> dict[str, str]:
    """Values of the names that stand for a table's file in templates of paths.

    The folder is relative to the source; of a file outside, it is the folder's own name.
    """
    folder, top = _plain(file.folder), f"{_plain(root)}/"
    name = folder.removeprefix(top) if f"{folder}/".startswith(top) else folder.rpartition("/")[2]
    return {TABLE_FOLDER: "." if f"{folder}/" == top else name, TABLE_STEM: file.stem}


def with_near_files(rows: pl.DataFrame, file: TableFileName, root: str, are_files: AreFiles) -> pl.DataFrame:
    """Rows whose paths are relative to the source, also if they were relative to the folder of their file.

    Args:
        rows: rows of one file of the table.
        file: this file.
        root: path or URL of the source.
        are_files: returns which paths, relative to the source, are files.

    Raises:
        ConfigError: a path names one file below the folder and another below the root.
    """
    if not is_near(file, root):
        return rows
    folder, top = _plain(file.folder), f"{_plain(root)}/"
    for name in path_columns(rows):
        given = rows[name]
        is_absolute = given.str.starts_with("/").fill_null(value=False)
        near = tidy_paths((f"{folder}/" + given).str.strip_prefix(top)).alias(_NEAR)
        there = are_files(near) & ~is_absolute & (near != given).fill_null(value=False)
        both = there & are_files(given)
        if both.any():
            _raise_ambiguous(rows.filter(both), given.filter(both)[0], near.filter(both)[0])
        rows = rows.with_columns(pl.select(pl.when(there).then(near).otherwise(given)).to_series().alias(name))
    return rows


def _raise_ambiguous(rows: pl.DataFrame, given: str, near: str) -> None:
    row = rows.select(row_name()).item(0, 0)
    raise ConfigError(
        f"the metadata table, {row}: the path {given!r} names two files, {near} beside the table's file and {given}; "
        "write paths relative to source.uri, or rename one of the files"
    )


def _plain(place: str) -> str:
    """A path without `..` and the like; a URL without the slash at its end."""
    return place.rstrip("/") if "://" in place or not place else posixpath.normpath(place)
