"""One shard, open for reading: a file, or blobs of it that came over a network.

Owns positioned reads and their checks. Which of the two a shard is, and where the file comes from, is `access`.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from headrace.errors import IntegrityError, NotFoundError, StorageError
from headrace.streaming.shards.coalesce import Span

UNKNOWN_SIZE = -1


class OpenShard(Protocol):
    """Bytes of one shard; safe for threads."""

    def read(self, start: int, stop: int) -> memoryview:
        """Bytes [start, stop). Raises `IntegrityError` when the shard ends before `stop`."""

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill `out` from byte `start` on. Raises `IntegrityError` when the shard ends before it is full."""


class FileShard:
    """A whole shard in a local file.

    It is read with `pread`, not mapped: a file that shrinks gives an error and not a bus error, what is read does not
    count as this process's memory, and latents go from the page cache into the batch in one copy.
    """

    def __init__(self, path: Path, num_bytes: int = UNKNOWN_SIZE) -> None:
        """Open `path`.

        Raises:
            NotFoundError: it is not there.
            IntegrityError: it does not have `num_bytes` bytes.
            StorageError: it cannot be opened.
        """
        self.path, self.pid = path, os.getpid()
        try:
            self.file_descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{path}: the shard is gone; was it removed by gc while a run still reads it?"
            ) from error
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise StorageError(
                f"{path}: this process may open no more files: raise the limit (ulimit -n), or take smaller batches, "
                "which touch fewer shards at a time"
            ) from error
        found = os.fstat(self.file_descriptor).st_size
        if num_bytes not in (UNKNOWN_SIZE, found):
            raise IntegrityError(
                f"{path}: {num_bytes} bytes expected, {found} found: damaged or cut off; copy it again"
            )

    @classmethod
    def of(cls, path: Path, file_descriptor: int) -> "FileShard":
        """An open file, which it takes over; `path` is what messages call it."""
        shard = cls.__new__(cls)
        shard.path, shard.file_descriptor, shard.pid = path, file_descriptor, os.getpid()
        return shard

    def __del__(self) -> None:
        """Close with the last reader; a lock of the cache's ends here, too, though a forked child has the same one."""
        descriptor = getattr(self, "file_descriptor", None)
        if descriptor is None:
            return
        if self.pid == os.getpid():
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def read(self, start: int, stop: int) -> memoryview:
        """See `OpenShard.read`."""
        blob = os.pread(self.file_descriptor, stop - start, start)
        if len(blob) != stop - start:
            return self._read_on(start, stop)
        return memoryview(blob)

    def read_into(self, start: int, out: memoryview) -> None:
        """See `OpenShard.read_into`."""
        done = os.preadv(self.file_descriptor, [out], start)
        while done < len(out):  # one call gives at most 2 GiB
            more = os.preadv(self.file_descriptor, [out[done:]], start + done)
            if more == 0:
                raise self._ends_early(start + len(out))
            done += more

    def _read_on(self, start: int, stop: int) -> memoryview:
        buffer = memoryview(bytearray(stop - start))
        self.read_into(start, buffer)
        return buffer

    def _ends_early(self, wanted: int) -> IntegrityError:
        found = os.fstat(self.file_descriptor).st_size
        return IntegrityError(f"{self.path}: bytes up to {wanted} wanted, the file ends at {found}: damaged or cut off")


class BlobShard:
    """Pieces of a shard in memory: what a ranged read brought."""

    def __init__(self, name: str, spans: Sequence[Span], blobs: Sequence[bytes]) -> None:
        self._name = name
        self._pieces = [(start, stop, memoryview(blob)) for (start, stop), blob in zip(spans, blobs, strict=True)]

    def read(self, start: int, stop: int) -> memoryview:
        """See `OpenShard.read`."""
        for first, last, blob in self._pieces:
            if first <= start and stop <= last:
                return blob[start - first : stop - first]
        raise IntegrityError(f"{self._name}: bytes {start}..{stop} were not fetched")

    def read_into(self, start: int, out: memoryview) -> None:
        """See `OpenShard.read_into`."""
        out[:] = self.read(start, start + len(out))
