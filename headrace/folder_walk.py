"""The files below a folder, in the order of their whole paths; hidden ones are left out.

Owns that walk, and that a link which leads nowhere, or in a loop, is no file.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path


def walk(folder: Path, parent: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and facts of each file below `folder`, sorted as their whole paths sort.

    Args:
        folder: where to begin; one that is not there holds nothing.
        parent: what stands before the names in it: empty, or a path that ends in `/`.
        prefix: what paths must begin with; folders that cannot lead there are not entered.
    """
    try:
        with os.scandir(folder) as scan:
            found = [(f"{item.name}/" if _is_dir(item) else item.name, item) for item in scan if item.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, item in sorted(found, key=lambda pair: pair[0]):
        path = parent + name
        if name[-1] == "/":
            if path.startswith(prefix) or prefix.startswith(path):
                yield from walk(Path(item.path), path, prefix)
        elif path.startswith(prefix) and (stat := _stat(item)) is not None:
            yield path, stat


def _is_dir(item: "os.DirEntry[str]") -> bool:
    """Whether it is a folder or leads to one; a link in a loop is none."""
    try:
        return item.is_dir()
    except OSError:
        return False


def _stat(item: "os.DirEntry[str]") -> os.stat_result | None:
    """None for what was removed since the scan, and for a link that leads nowhere or in a loop."""
    try:
        return item.stat()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            return None
        raise
