"""Opens local files, and rejects names that are not regular files.

Opening a named pipe would block until another process writes to it, so pipes are rejected without waiting.
"""

import errno
import os
import stat
from pathlib import Path

from headrace.errors import NotAFileError

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file, for `os` or as the `opener` of `open`.

    Raises:
        NotAFileError: the path is a pipe, a folder or the like; the message says which.
        OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)  # O_NONBLOCK has no effect on regular files
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise NotAFileError(f"{os.fspath(path)}: is a socket or a device, not a file") from error
    try:
        check_regular(path, os.fstat(descriptor).st_mode)
    except NotAFileError:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Raise `NotAFileError`, which says what the path is, unless the mode is that of a regular file."""
    if not stat.S_ISREG(mode):
        raise NotAFileError(f"{os.fspath(path)}: is {_KINDS[stat.S_IFMT(mode)]}, not a file")


def oddity(path: Path) -> str | None:
    """The kind of a path that is not a regular file: "a named pipe"; None for a file, and if nothing has this name."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return _dead_link(path)
    return None if stat.S_ISREG(mode) else _KINDS[stat.S_IFMT(mode)]


def _dead_link(path: Path) -> str | None:
    """Description of a broken link; None for anything else, and on a disk that fails."""
    try:
        return f"a broken link (to {path.readlink()})"
    except OSError:
        return None
