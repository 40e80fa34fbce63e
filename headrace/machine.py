"""What the machine gives this process: cores, files without a name, and room on a disk."""

import errno
import math
import os
import tempfile
from pathlib import Path

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What a full disk or a used-up quota says."""

_CGROUP = Path("/sys/fs/cgroup")


def num_cores(cgroup: Path = _CGROUP) -> int:
    """Cores that this process may use, at least 1: those of its affinity mask, as far as a container's quota goes.

    The quota is read as Docker and Kubernetes set it, from cgroups of either version (`cpu.max`, or `cpu.cfs_quota_us`
    and `cpu.cfs_period_us`); part of a core counts as one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota(cgroup))))


def anonymous_file(name: str) -> int:
    """The descriptor of an empty file in memory that goes with its last user, whatever dies; for the caller to close.

    Args:
        name: what tools that list a process's files show.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # not Linux: it has no name either, and may come to lie on a disk
        return os.dup(file.fileno())


def reserve(file: int, num_bytes: int) -> None:
    """Give an open file its size, and the room on its disk as well where system and file system can reserve it.

    Raises:
        OSError: there is no such room (`NO_ROOM`). Where none can be reserved, that shows in writing.
    """
    if hasattr(os, "posix_fallocate"):  # macOS has none
        try:
            os.posix_fallocate(file, 0, num_bytes)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
        else:
            return
    os.ftruncate(file, num_bytes)


def _quota(cgroup: Path) -> float:
    """Cores that may be used at a time; infinite without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((cgroup / name).read_text() for name in names).split()
        except (OSError, ValueError):
            continue
        if quota.isdecimal() and period.isdecimal():  # "max", or -1, is none
            return int(quota) / int(period)
    return math.inf
