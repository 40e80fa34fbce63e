"""Creates a file under a name that must not exist yet, atomically and durably, on any file system.

The content is flushed to disk before the file gets its name, and the name after that: the name of a manifest or a
snapshot is never used again, so a power failure must not leave an empty file under it.

Most file systems do this with a hard link. exFAT, some network shares and some file systems in user space have no hard
links; there the system's rename without replacement is used (renameat2(2) of Linux, renamex_np(2) of macOS).
"""

import contextlib
import ctypes
import errno
import os
import sys
from pathlib import Path

_NOT_SUPPORTED = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4


def name_exclusively(temporary: Path, target: Path) -> None:
    """Give `temporary` the name `target`, in the same folder; its old name may remain as well.

    Raises:
        FileExistsError: that name is taken.
        OSError: the file system has neither hard links nor a rename without replacement.
    """
    _to_disk(temporary)
    try:
        target.hardlink_to(temporary)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        _rename(temporary, target)
    with contextlib.suppress(OSError):  # not every file system can flush a folder
        _to_disk(target.parent)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(source: Path, target: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(source), os.fsencode(target)
    number = errno.ENOSYS
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        number = library.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE) and ctypes.get_errno()
    elif sys.platform == "darwin":
        number = library.renamex_np(old, new, _RENAME_EXCL) and ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        words = "this file system has neither hard links nor a rename without replacement; build on another one"
        raise OSError(number, words, str(target))
    if number:
        raise OSError(number, os.strerror(number), str(target))
