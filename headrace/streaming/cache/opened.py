"""Reads byte ranges of one open shard: of a file, or of pieces that ranged reads have fetched.

`access` decides which of the two a shard is, and where its file is.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from headrace.checksums import crc32
from headrace.errors import IntegrityError, NotAFileError, StorageError, shard_gone
from headrace.format.indexes.index import ABSENT
from headrace.format.tars.tar import sha256_of
from headrace.stores.regular_files import open_regular
from headrace.streaming.cache.coalesce import Span

UNKNOWN_SIZE = -1
_PIECE_BYTES = 1 << 20


class StoredField(NamedTuple):
    """One field of a sample in its shard: `name` (`<key>.json`), byte range, and CRC-32 (-1 if it is not known)."""

    name: str
    start: int
    stop: int
    crc32: int


def fields_of(key: str, names: Sequence[str], spans: Sequence[int], checksums: Sequence[int]) -> list[StoredField]:
    """All fields of a sample, from the numbers of its `IndexRow`."""
    columns = zip(names, spans[::2], spans[1::2], checksums, strict=True)
    return [StoredField(f"{key}.{name}", start, stop, crc32) for name, start, stop, crc32 in columns if start != ABSENT]


def is_stored(field: StoredField, file_descriptor: int) -> bool:
    """Whether the bytes of a field in an open file have its checksum; True for a field without a checksum."""
    if field.crc32 == ABSENT:
        return True
    found = 0
    for start in range(field.start, field.stop, _PIECE_BYTES):
        found = crc32(os.pread(file_descriptor, min(_PIECE_BYTES, field.stop - start), start), found)
    return found == field.crc32


def holds(opened: "FileShard", fields: Sequence[StoredField]) -> bool:
    """Whether the bytes of all these fields in an open file have their checksums."""
    return all(is_stored(field, opened.file_descriptor) for field in fields)


def digest_of(opened: "FileShard") -> str:
    """SHA-256 of an open file, whose name may be gone."""
    with open(opened.file_descriptor, "rb", closefd=False) as file:
        return sha256_of(file)


class OpenShard(Protocol):
    """Bytes of one shard; safe for threads."""

    is_compared: ClassVar[bool]
    """Whether the bytes of each field have been compared with its checksum when they were fetched."""

    def read(self, start: int, stop: int) -> memoryview:
        """Bytes [start, stop). Raises `IntegrityError` if the shard ends before `stop`."""

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `start` on. Raises `IntegrityError` if the shard ends before it is full."""


class FileShard:
    """A whole shard in a local file.

    It is read with `pread` and not mapped: a file that shrinks gives an exception rather than a bus error, the read
    bytes do not count as memory of this process, and latents are copied once, from the page cache into the batch.
    """

    is_compared: ClassVar[bool] = False

    def __init__(self, path: Path, num_bytes: int = UNKNOWN_SIZE) -> None:
        """Open `path`.

        Raises:
            NotFoundError: there is no such file.
            IntegrityError: the file does not have `num_bytes` bytes.
            NotAFileError: it is a folder, a pipe or a device.
            StorageError: the file cannot be opened.
        """
        self.path, self.pid = path, os.getpid()
        try:
            self.file_descriptor = open_regular(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise shard_gone(str(path)) from error
        except NotAFileError:
            raise
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise StorageError(f"{path}: cannot be opened: {error.strerror}") from error
            raise StorageError(
                f"{path}: this process may open no more files: raise the limit (ulimit -n), or use smaller batches, "
                "which read fewer shards at a time"
            ) from error
        found = os.fstat(self.file_descriptor).st_size
        if num_bytes not in (UNKNOWN_SIZE, found):
            raise IntegrityError(
                f"{path}: {num_bytes} bytes expected, {found} found: damaged or cut off; copy it again"
            )

    @classmethod
    def of(cls, path: Path, file_descriptor: int) -> "FileShard":
        """Make a shard from an open file, which then belongs to the shard; `path` is its name in messages."""
        shard = cls.__new__(cls)
        shard.path, shard.file_descriptor, shard.pid = path, file_descriptor, os.getpid()
        return shard

    def __del__(
        self,
        close: Callable[[int], object] = os.close,
        flock: Callable[[int, int], object] = fcntl.flock,
        unlock: int = fcntl.LOCK_UN,
        getpid: Callable[[], int] = os.getpid,
    ) -> None:
        """Close the file, and release a lock of the cache, even if a forked child has the same lock.

        The functions are defaults because modules may be empty when this runs at the end of the interpreter.
        """
        descriptor = getattr(self, "file_descriptor", None)
        if descriptor is None:
            return
        try:
            try:
                if self.pid == getpid():
                    flock(descriptor, unlock)
            finally:
                close(descriptor)
        except OSError:  # a file system without locks
            pass

    def read(self, start: int, stop: int) -> memoryview:
        """See `OpenShard.read`."""
        blob = os.pread(self.file_descriptor, stop - start, start)
        if len(blob) != stop - start:
            return self._read_on(start, stop)
        return memoryview(blob)

    def read_into(self, start: int, out: memoryview) -> None:
        """See `OpenShard.read_into`."""
        done = os.preadv(self.file_descriptor, [out], start)
        while done < len(out):  # one call reads at most 2 GiB
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
        return IntegrityError(f"{self.path}: bytes up to {wanted} expected, file ends at {found}: damaged or cut off")


class BlobShard:
    """Pieces of a shard in memory, fetched by ranged reads."""

    is_compared: ClassVar[bool] = True

    def __init__(self, name: str, fetch: Callable[[int, int], bytes] | None = None) -> None:
        """Make a shard without pieces.

        Args:
            name: its name in messages.
            fetch: gives bytes of it that are in no piece, which are not compared with a checksum.
        """
        self._name = name
        self._fetch = fetch
        self._pieces: list[tuple[int, int, memoryview]] = []
        self._damaged: dict[StoredField, str] = {}

    def add(self, spans: Sequence[Span], blobs: Sequence[bytes]) -> None:
        """Add pieces; where they overlap older pieces, the new bytes are used."""
        pieces = [(start, stop, memoryview(blob)) for (start, stop), blob in zip(spans, blobs, strict=True)]
        self._pieces = pieces + self._pieces

    @property
    def pieces(self) -> list[tuple[Span, memoryview]]:
        """The bounds and the bytes of all pieces."""
        return [((start, stop), blob) for start, stop, blob in self._pieces]

    def is_sound(self, field: StoredField) -> bool:
        """Whether the bytes of a field have its checksum."""
        return field.crc32 in (ABSENT, crc32(self._found(field.start, field.stop)))

    def mark_damaged(self, field: StoredField, reason: str) -> None:
        """Make every later read of bytes of this field raise `IntegrityError` with the reason."""
        found = crc32(self._found(field.start, field.stop))
        self._damaged[field] = (
            f"{self._name}: {field.name}, bytes {field.start}..{field.stop}: CRC-32 {field.crc32:08x} expected, "
            f"{found:08x} found, {reason}"
        )

    def read(self, start: int, stop: int) -> memoryview:
        """See `OpenShard.read`."""
        for field, fault in self._damaged.items():
            if start < field.stop and field.start < stop:
                raise IntegrityError(fault)
        return self._found(start, stop)

    def read_into(self, start: int, out: memoryview) -> None:
        """See `OpenShard.read_into`."""
        out[:] = self.read(start, start + len(out))

    def _found(self, start: int, stop: int) -> memoryview:
        for first, last, blob in self._pieces:
            if first <= start and stop <= last:
                return blob[start - first : stop - first]
        if self._fetch is not None:
            return memoryview(self._fetch(start, stop))
        raise IntegrityError(f"{self._name}: bytes {start}..{stop} were not fetched")
