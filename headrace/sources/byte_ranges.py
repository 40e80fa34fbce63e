"""Opens files, and byte ranges of them, as recordings: nothing is copied.

An opened file is compared with its stamp in the listing at the beginning and the end of the block.
"""

import errno
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from headrace.errors import FileChangedError
from headrace.sources.bucket_source import BucketSource, is_at, stamp_of
from headrace.sources.listing import NO_CTIME, FileStamp
from headrace.sources.named_files import is_url, object_of
from headrace.sources.object_file import ObjectFile
from headrace.stores.ranged_files import RangeFile
from headrace.stores.storage import StoredObject

_WHOLE_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20


def range_stamp(whole: FileStamp, num_bytes: int) -> FileStamp:
    """The stamp of a range of a file with this stamp.

    The time of an object may be in whole seconds: without an ETag, its size takes the place of the change time.
    """
    changed = whole.num_bytes if whole.ctime_ns == NO_CTIME else whole.ctime_ns
    return FileStamp(num_bytes, whole.mtime_ns, changed)


@contextmanager
def open_range(file: str, start: int | None, stamp: FileStamp, path: str) -> Iterator[BinaryIO]:
    """A block with a file, or with a range of its bytes.

    Args:
        file: the file: a path, or a URL of an object (`headrace.sources.named_files`).
        start: first byte of the range; None for the whole file.
        stamp: stamp of the file, or of the range (`range_stamp`).
        path: name of the recording, for messages.

    Raises:
        FileChangedError: at the beginning or the end of the block: the file is not, or no longer, the listed one.
        OSError: the file cannot be read.
    """
    if is_url(file):
        with _open_object(file, start, stamp) as data:
            yield data
        return
    with open(file, "rb", opener=_without_waiting) as whole:
        _check(os.fstat(whole.fileno()), start, stamp, path)
        if start is None:
            yield whole
        else:
            with io.BufferedReader(RangeFile(whole, start, stamp.num_bytes)) as part:
                yield part
    _check(os.stat(file), start, stamp, path)  # noqa: PTH116 - as above


@contextmanager
def open_content(file: str, content: Callable[[], bytes], stamp: FileStamp, path: str) -> Iterator[BinaryIO]:
    """A block with bytes that are read from a local file in some other way. Arguments and errors as for `open_range`.

    Args:
        file: the file.
        content: reads the bytes.
        stamp: their number, and the times of the file.
        path: name of the recording, for messages.
    """
    _check(os.stat(file), 0, replace(stamp, num_bytes=0), path)  # noqa: PTH116 - as above
    data = content()
    if len(data) != stamp.num_bytes:
        raise FileChangedError(f"{path}: the file changed since it was listed")
    yield io.BytesIO(data)
    _check(os.stat(file), 0, replace(stamp, num_bytes=0), path)  # noqa: PTH116 - as above


@contextmanager
def open_made(
    content: Callable[[], bytes], stamp_of_all: Callable[[], FileStamp | None], stamp: FileStamp, path: str
) -> Iterator[BinaryIO]:
    """A block with bytes that are made of several files.

    Args:
        content: makes the bytes. Raises `OSError`.
        stamp_of_all: the stamp of the files together, as now; None if one is gone.
        stamp: the same when they were listed, with the number of bytes.
        path: name of the recording, for messages.

    Raises:
        FileChangedError: one of the files is not, or no longer, the listed one.
        OSError: a file cannot be read.
    """

    def check() -> None:
        found = stamp_of_all()
        if found is None or range_stamp(found, stamp.num_bytes) != stamp:
            raise FileChangedError(f"{path}: a file changed since it was listed")

    check()
    data = content()
    if len(data) != stamp.num_bytes:
        raise FileChangedError(f"{path}: a file changed since it was listed")
    yield io.BytesIO(data)
    check()


@contextmanager
def _open_object(url: str, start: int | None, stamp: FileStamp) -> Iterator[BinaryIO]:
    storage, path = object_of(url)
    if start is None:
        with BucketSource(storage).open(path, stamp) as whole:
            yield whole
        return
    accept = partial(_check_whole, stamp=stamp)
    if stamp.num_bytes <= _WHOLE_BYTES:
        span = (start, start + stamp.num_bytes)
        yield io.BytesIO(storage.fetch(path, accept, span).data if stamp.num_bytes else b"")
        return
    size = start + stamp.num_bytes
    raw = ObjectFile(storage, path, size, accept, first_bytes=_PIECE_BYTES)
    with io.BufferedReader(raw) as whole, io.BufferedReader(RangeFile(whole, start, stamp.num_bytes)) as part:
        yield part


def _check_whole(entry: StoredObject, stamp: FileStamp) -> None:
    """Raise `FileChangedError` if an object is not that of a range's stamp (`range_stamp`)."""
    found = stamp_of(entry)
    if not is_at(replace(found, ctime_ns=range_stamp(found, 0).ctime_ns), stamp):
        raise FileChangedError(f"{entry.path}: the object changed since it was listed")


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
