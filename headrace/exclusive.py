"""Giving a file a name that must be free, in one step and for good, on any file system.

Before and after it what was written goes to the disk: the name of a manifest or a snapshot is never given again, so a
power cut must not leave it to an empty file.

A hard link does it on most. exFAT, some network shares and some file systems in user space have no links; there the
system's rename that replaces nothing does it (renameat2(2) of Linux, renamex_np(2) of macOS).
"""

import contextlib
import ctypes
import errno
import os
import sys
from pathlib import Path

_NOT_HERE = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}
_HERE = -100  # AT_FDCWD
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4


def name_exclusively(temporary: Path, target: Path) -> None:
    """Give `temporary` the name `target` in the same folder; it may keep its own, too.

    Raises:
        FileExistsError: that name is taken.
        OSError: the file system can do neither.
    """
    _to_disk(temporary)
    try:
        target.hardlink_to(temporary)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        _rename(temporary, target)
    with contextlib.suppress(OSError):  # not every file system can do it with a folder
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
        number = library.renameat2(_HERE, old, _HERE, new, _RENAME_NOREPLACE) and ctypes.get_errno()
    elif sys.platform == "darwin":
        number = library.renamex_np(old, new, _RENAME_EXCL) and ctypes.get_errno()
    if number in _NOT_HERE:
        words = "this file system has neither hard links nor a rename that replaces nothing; build on another one"
        raise OSError(number, words, str(target))
    if number:
        raise OSError(number, os.strerror(number), str(target))
