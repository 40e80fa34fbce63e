"""Change times of restored files: as no program can set them, a stamp of the file has the time of the original."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headrace.sources.listing import FileStamp

_stamp_of = FileStamp.of
_Identity = tuple[int, int, int, int]

_originals: dict[_Identity, int] = {}
"""Identity of a restored file → change time of its original. A file that changes afterwards has another identity."""


def change_times(folder: Path) -> dict[Path, int]:
    """The change time of each file in a folder, by its path relative to the folder."""
    return {path.relative_to(folder): path.stat().st_ctime_ns for path in folder.rglob("*") if path.is_file()}


def restore_change_times(folder: Path, times: Mapping[Path, int]) -> None:
    """Take the files of a folder for unchanged since these times, until they change."""
    for path, time in times.items():
        _originals[_identity((folder / path).stat())] = time


def restored_stamp(status: os.stat_result) -> FileStamp:
    """`FileStamp.of`, with the change time of the original if the file is restored."""
    stamp, original = _stamp_of(status), _originals.get(_identity(status))
    return stamp if original is None else replace(stamp, ctime_ns=original)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
