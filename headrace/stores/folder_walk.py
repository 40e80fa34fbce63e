"""Lists the files below a folder, sorted by their whole paths, without hidden ones.

`walk` lists regular files and links to them. `walk_odd` lists the names that `walk` leaves out because they lead to
anything else: folders, pipes, broken links.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path


def walk(folder: Path | str, parent: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and `stat` of each file below `folder`, sorted by whole path.

    Args:
        folder: where to begin; a folder that does not exist holds nothing.
        parent: put before the names in `folder`: empty, or a path that ends in `/`.
        prefix: what paths must begin with; folders that cannot contain such paths are not read.
    """
    for path, item in _entries(folder, parent):
        if path[-1] == "/":
            if _leads_to(path, prefix):
                yield from walk(item.path, path, prefix)
        elif path.startswith(prefix) and (stat := _stat(item)) is not None:
            yield path, stat


def walk_odd(folder: Path | str, parent: str, prefix: str) -> Iterator[str]:
    """Path of each name that does not lead to a regular file: folders, pipes, broken links; sorted as in `walk`."""
    for path, item in _entries(folder, parent):
        if path[-1] == "/":
            if path.startswith(prefix):
                yield path[:-1]
            if _leads_to(path, prefix):
                yield from walk_odd(item.path, path, prefix)
        elif path.startswith(prefix) and not _is_file(item):
            yield path


def _entries(folder: Path | str, parent: str) -> list[tuple[str, "os.DirEntry[str]"]]:
    """The content of a folder without hidden names, sorted; paths of folders end in `/`."""
    try:
        with os.scandir(folder) as scan:
            found = [(f"{item.name}/" if _is_dir(item) else item.name, item) for item in scan if item.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [(parent + name, item) for name, item in sorted(found, key=lambda pair: pair[0])]


def _leads_to(folder: str, prefix: str) -> bool:
    """Whether a folder may hold paths that begin with a prefix."""
    return folder.startswith(prefix) or prefix.startswith(folder)


def _is_dir(item: "os.DirEntry[str]") -> bool:
    """Whether it is a folder or a link to one; a link in a loop is not."""
    try:
        return item.is_dir()
    except OSError:
        return False


def _is_file(item: "os.DirEntry[str]") -> bool:
    """Whether it is a regular file or a link to one."""
    try:
        return item.is_file()
    except OSError:
        return False


def _stat(item: "os.DirEntry[str]") -> os.stat_result | None:
    """The `stat` of a file; None if it was removed since the scan, and for a broken link or one in a loop."""
    try:
        return item.stat()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            return None
        raise
