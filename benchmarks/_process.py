"""Memory and bytes that a process has used, as Linux counts them."""

import re
from pathlib import Path


def peak_mb() -> float:
    """The most memory that this process ever held; `ru_maxrss` would count its parent's too, from before the exec."""
    return round(_number("status", r"VmHWM:\s*(\d+)") / 1000, 1)


def bytes_read() -> int:
    """Bytes that this process has read by calls, of files and of others."""
    return _number("io", r"rchar: (\d+)")


def _number(file: str, pattern: str) -> int:
    (found,) = re.findall(pattern, Path("/proc/self", file).read_text())
    return int(found)
