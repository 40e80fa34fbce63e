"""Resources of the machine: CPU cores, anonymous files in memory, and reserved disk space."""

import errno
import math
import os
import tempfile
from pathlib import Path

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers that mean a full disk or an exhausted quota."""

_CGROUP = Path("/sys/fs/cgroup")


def num_cores(cgroup: Path = _CGROUP) -> int:
    """Number of cores that this process may use, at least 1: the affinity mask, limited by the quota of a container.

    The quota is read from cgroups version 2 (`cpu.max`) or 1 (`cpu.cfs_quota_us` and `cpu.cfs_period_us`), where Docker
    and Kubernetes set it. It is rounded up.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota(cgroup))))


def anonymous_file(name: str) -> int:
    """Create an empty file in memory, which disappears with its last open descriptor, also after a crash.

    Args:
        name: name of the file in tools that list the open files of a process.

    Returns:
        The file's descriptor. The caller closes it.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # not Linux: this file has no name either, but may be on a disk
        return os.dup(file.fileno())


def reserve(file: int, num_bytes: int) -> None:
    """Set the size of an open file and reserve disk space for it, if the system and the file system can do that.

    Raises:
        OSError: the disk does not have enough space (`NO_ROOM`). If space cannot be reserved, writing fails later.
    """
    if hasattr(os, "posix_fallocate"):  # not on macOS
        try:
            os.posix_fallocate(file, 0, num_bytes)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
        else:
            return
    os.ftruncate(file, num_bytes)


def _quota(cgroup: Path) -> float:
    """Number of cores that may be used at the same time, as a fraction; infinite without a quota."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((cgroup / name).read_text() for name in names).split()
        except (OSError, ValueError):
            continue
        if quota.isdecimal() and period.isdecimal():  # "max" and -1 mean no quota
            return int(quota) / int(period)
    return math.inf
