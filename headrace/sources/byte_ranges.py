"""Opens local files, and byte ranges of them, as recordings: nothing is copied.

An opened file is compared with its stamp in the listing at the beginning and the end of the block.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from headrace.errors import FileChangedError
from headrace.sources.listing import NO_CTIME, FileStamp


class RangeFile(io.RawIOBase):
    """Bytes of an open file as a file of their own. Use it below an `io.BufferedReader`."""

    def __init__(self, file: BinaryIO, start: int, num_bytes: int) -> None:
        """Take `num_bytes` bytes from byte `start`. The position of `file` is moved."""
        self._file, self._start, self._size = file, start, num_bytes
        self._position = 0

    def readable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        """See `io.RawIOBase`."""
        self._file.seek(self._start + self._position)
        data = self._file.read(max(0, min(len(buffer), self._size - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """See `io.IOBase`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """See `io.IOBase`."""
        return self._position


def stamp_of_file(file: str) -> FileStamp | None:
    """The stamp of a local file; None if there is no such file, or it is not a regular one."""
    try:
        status = os.stat(file)  # noqa: PTH116 - per file: a Path costs more than the stat
    except (OSError, ValueError):
        return None
    return FileStamp.of(status) if stat.S_ISREG(status.st_mode) else None


@contextmanager
def open_range(file: str, start: int | None, stamp: FileStamp, path: str) -> Iterator[BinaryIO]:
    """A block with a local file, or with a range of its bytes.

    Args:
        file: the file.
        start: first byte of the range; None for the whole file.
        stamp: size of the range, and times of the file.
        path: name of the recording, for messages.

    Raises:
        FileChangedError: at the beginning or the end of the block: the file is not, or no longer, the listed one.
        OSError: the file cannot be read.
    """
    with open(file, "rb", opener=_without_waiting) as whole:
        _check(os.fstat(whole.fileno()), start, stamp, path)
        if start is None:
            yield whole
        else:
            with io.BufferedReader(RangeFile(whole, start, stamp.num_bytes)) as part:
                yield part
    _check(os.stat(file), start, stamp, path)  # noqa: PTH116 - as above


def _check(status: os.stat_result, start: int | None, stamp: FileStamp, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file but a pipe, socket or device", path)
    found = FileStamp.of(status)
    has_size = found.num_bytes == stamp.num_bytes if start is None else found.num_bytes >= start + stamp.num_bytes
    is_old = found.mtime_ns == stamp.mtime_ns and stamp.ctime_ns in {NO_CTIME, found.ctime_ns}
    if not (has_size and is_old):
        raise FileChangedError(f"{path}: the file changed since it was listed")


def _without_waiting(file: str, flags: int) -> int:
    """Open a file. If a pipe has replaced it, return at once instead of waiting for a writer."""
    return os.open(file, flags | os.O_NONBLOCK)
