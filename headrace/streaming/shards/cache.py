"""Keeps whole shards in a folder that all processes of a host share, under a limit of bytes.

Shards get their name by an atomic rename, their size is checked on every open, and the least recently used ones are
evicted. Processes synchronise by `flock`, which the kernel releases when a process dies: there is no shared memory and
no barrier, and a killed process leaves nothing to clean up. A file in the cache is never the only copy.

A lock belongs to the open file, and a forked child has the same open file. So a lock is released by `LOCK_UN`, which
holds for both processes, before the file is closed; otherwise it would be held until the child ends.

    .lock                  held while room is made, and while a shard gets its name; short
    .NAME.part             a shard that is being written; the process that writes it holds its lock. Without a lock it
                           is left over from a dead process, and the next process begins it again
    NAME                   a whole shard; readers hold a shared lock, so an open shard is not evicted
    NAME.idx               its index, if it came from a store
"""

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError, IntegrityError, NotAFileError, NotFoundError
from headrace.machine import NO_ROOM, reserve
from headrace.streaming.shards.opened import FileShard

_PART = ".part"
_INDEX = ".idx"
_LOCK = ".lock"
_LOCK_ATTEMPTS = 5
_LOCK_PAUSE_SECONDS = 0.002
_INDEX_SHARE = 64  # part of the free room that indexes take before a process measures the folder again


class CacheUnusableError(HeadraceError, OSError):
    """The cache folder cannot take a shard: no room under its limit, a full disk, or no right to write."""


class CacheFullError(CacheUnusableError):
    """The cache has no room now: its shards are in use, or another process downloads the shard and is stuck."""


@dataclass(slots=True)
class _Kept:
    """A shard in the folder with its index, or only an index: their size, and the time of the last use."""

    name: str
    is_shard: bool = False
    num_bytes: int = 0
    used_ns: int = 0


@dataclass(frozen=True, slots=True)
class Incoming:
    """A shard that is being written: write it in order, then leave the `with` block."""

    file_descriptor: int

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises `CacheUnusableError` if the disk is full."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.file_descriptor, view) :]
        except OSError as error:
            raise CacheUnusableError(f"cache: {error.strerror}") from error


class ShardCache:
    """The shards in one folder, under a limit of bytes (None for none); safe for threads and processes."""

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._room_for_indexes = 0  # changed only under the lock of the folder

    def find(self, name: str, num_bytes: int) -> FileShard | None:
        """Open a shard and mark it as just used; None if it is not in the cache.

        A file of another size is damaged: it is removed and counts as absent.
        """
        try:
            found = FileShard(self.folder / name, num_bytes)
        except NotFoundError:
            return None
        except (IntegrityError, NotAFileError):
            self.discard(name)
            return None
        if not _lock(found.file_descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return None  # being evicted
        with contextlib.suppress(OSError):
            os.utime(found.file_descriptor)
        return found

    def is_arriving(self, name: str) -> bool:
        """Whether a process is writing the shard, or has renamed it but not released its lock yet."""
        return _is_held(self._part(name)) or _is_held(self.folder / name)

    def written_ns(self, name: str) -> int:
        """Time of the last write to a shard that is being written, in ns; 0 if none is."""
        try:
            return self._part(name).stat().st_mtime_ns
        except OSError:
            return 0

    @contextlib.contextmanager
    def receive(self, name: str, num_bytes: int, keep: Collection[str] = ()) -> Iterator[Incoming | None]:
        """Write a shard into the cache: room is made first, and the file appears if the block ends without an error.

        Args:
            name: name of the shard.
            num_bytes: its size.
            keep: names of shards that must not be evicted for it.

        Yields:
            The file to write; None if another process is writing the shard, or it is in the cache already.

        Raises:
            CacheUnusableError: the cache cannot hold the shard.
        """
        with self._owned_part(name) as part:
            if part is None or (self.folder / name).exists():
                yield None
                return
            with self._translated():
                self._reserve(part, num_bytes, keep)
            yield Incoming(part)
            if os.lseek(part, 0, os.SEEK_CUR) != num_bytes:
                raise IntegrityError(f"{name}: {num_bytes} bytes expected, {os.lseek(part, 0, os.SEEK_CUR)} received")
            with self._translated():
                os.fsync(part)  # after a power cut, a file of zeros must not look like a whole shard
                with self._folder_lock():  # without it, a process that makes room could see neither of the two names
                    self._part(name).rename(self.folder / name)

    def evict(self, name: str) -> bool:
        """Remove a shard that no process has open. Returns whether it is gone."""
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            (self.folder / f"{name}{_INDEX}").unlink(missing_ok=True)  # may be there without its shard
            return True
        except OSError:
            return False
        try:
            is_free = _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_free:
                self.discard(name)
            return is_free
        finally:
            _release(descriptor)

    def discard(self, name: str) -> None:
        """Remove a shard, even if it is open; its readers can continue."""
        for path in (self.folder / name, self.folder / f"{name}{_INDEX}"):
            with contextlib.suppress(OSError):
                path.unlink()

    def discard_copy(self, opened: FileShard) -> bool:
        """Remove the shard of an open file, unless its name belongs to another copy now. Returns whether it did."""
        is_here = _is_at(opened.file_descriptor, opened.path)
        if is_here:
            self.discard(opened.path.name)
        return is_here

    def evict_coldest(self, keep: Collection[str] = ()) -> str | None:
        """Remove the least recently used shard that no process has open. Returns its name."""
        shards = (kept for kept in self._coldest_first() if kept.is_shard and kept.name not in keep)
        return next((kept.name for kept in shards if self.evict(kept.name)), None)

    def usage_bytes(self) -> int:
        """Size of all files in the folder, including shards that are being written."""
        return sum(num_bytes for _, num_bytes, _ in self._files())

    def keep_index(self, name: str, blob: bytes) -> None:
        """Keep the index of a shard beside it, making room as for a shard; a failure is not an error."""
        with contextlib.suppress(OSError):
            self._make_folder()
            if self.limit_bytes is None:
                self._write_index(name, blob)
                return
            with self._folder_lock():
                self._reserve_for_index(len(blob), self.limit_bytes)
                self._write_index(name, blob)

    def _write_index(self, name: str, blob: bytes) -> None:
        temporary = self.folder / f".{name}{_INDEX}.{uuid.uuid4().hex}"  # process ids are not unique among containers
        temporary.write_bytes(blob)
        temporary.rename(self.folder / f"{name}{_INDEX}")

    def _reserve_for_index(self, num_bytes: int, limit: int) -> None:
        """Make room for an index; the folder is not measured for each one, as there may be a million."""
        if num_bytes > self._room_for_indexes:
            usage = self.usage_bytes()
            if usage + num_bytes > limit:
                usage = self._make_room(limit - max(num_bytes, limit // _INDEX_SHARE), ())
            self._room_for_indexes = num_bytes + (limit - usage - num_bytes) // _INDEX_SHARE
        self._room_for_indexes -= num_bytes

    def kept_index(self, name: str) -> bytes | None:
        """The kept index of a shard, or None."""
        try:
            return (self.folder / f"{name}{_INDEX}").read_bytes()
        except OSError:
            return None

    @contextlib.contextmanager
    def _owned_part(self, name: str) -> Iterator[int | None]:
        """The file to which the shard is written, locked and empty; None if another process has locked it."""
        self._make_folder()
        path = self._part(name)
        while True:
            part = self._opened(path)
            if not _lock_soon(part):
                _release(part)
                yield None
                return
            if _is_at(part, path):
                break
            _release(part)  # another process renamed or removed it between the two steps
        try:
            with self._translated():
                os.ftruncate(part, 0)
            yield part
        finally:
            if _is_at(part, path):
                with contextlib.suppress(OSError):
                    path.unlink()
            _release(part)

    def _reserve(self, part: int, num_bytes: int, keep: Collection[str]) -> None:
        """Make room for the file and give it its final size, which counts against the limit."""
        with self._folder_lock():
            if self.limit_bytes is not None:
                self._room_for_indexes = 0
                self._make_room(self.limit_bytes - num_bytes, keep)
            reserve(part, num_bytes)

    def _make_room(self, budget: int, keep: Collection[str]) -> int:
        """Evict shards until at most `budget` bytes are used, or raise. Returns the number of used bytes."""
        if budget < 0:
            raise CacheUnusableError(f"{self.folder}: a shard is larger than cache_limit={self.limit_bytes}: raise it")
        for leftover in self.folder.glob(f".*{_PART}"):
            self._remove_leftover(leftover)
        for leftover in self.folder.glob(f".*{_INDEX}.*"):  # of killed processes; an index may be lost
            with contextlib.suppress(OSError):
                leftover.unlink()
        usage = self.usage_bytes()
        for kept in self._coldest_first() if usage > budget else ():
            if usage > budget and kept.name not in keep and self.evict(kept.name):
                usage -= kept.num_bytes
        if usage > budget:
            raise CacheFullError(
                f"{self.folder}: cache_limit={self.limit_bytes} is less than the shards in use now: raise it"
            )
        return usage

    def _remove_leftover(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            part = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                # Without locks, nobody knows whether a process is still writing the file.
                if _lock(part, fcntl.LOCK_EX | fcntl.LOCK_NB, without_locks=False) and _is_at(part, path):
                    path.unlink()
            finally:
                _release(part)

    def _coldest_first(self) -> list[_Kept]:
        """Indexes without shards, then shards with their indexes; each from the least to the most recently used."""
        found: dict[str, _Kept] = {}
        for file, num_bytes, used_ns in self._files():
            if file[0] == ".":
                continue
            name = file.removesuffix(_INDEX)
            kept = found.setdefault(name, _Kept(name))
            kept.num_bytes += num_bytes
            if file == name:
                kept.is_shard = True
            if file == name or not kept.is_shard:
                kept.used_ns = used_ns
        return sorted(found.values(), key=lambda kept: (kept.is_shard, kept.used_ns))

    def _files(self) -> Iterator[tuple[str, int, int]]:
        """Name, size and time of last use of every file."""
        try:
            with os.scandir(self.folder) as scan:
                items = list(scan)
        except OSError:
            return
        for item in items:
            with contextlib.suppress(FileNotFoundError):
                if item.is_file():
                    stat = item.stat()
                    yield item.name, stat.st_size, stat.st_mtime_ns

    def _part(self, name: str) -> Path:
        return self.folder / f".{name}{_PART}"

    def _make_folder(self) -> None:
        with self._translated():
            self.folder.mkdir(parents=True, exist_ok=True)

    def _opened(self, path: Path) -> int:
        with self._translated():
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    @contextlib.contextmanager
    def _folder_lock(self) -> Iterator[None]:
        lock = self._opened(self.folder / _LOCK)
        try:
            _lock(lock, fcntl.LOCK_EX)
            yield
        finally:
            _release(lock)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors of the system as `CacheUnusableError`, with a remedy."""
        try:
            yield
        except HeadraceError:
            raise
        except OSError as error:
            way_out = "free some disk, or set cache_limit" if error.errno in NO_ROOM else "choose another local=…"
            raise CacheUnusableError(f"{self.folder}: {error.strerror}: {way_out}") from error


def _lock(descriptor: int, how: int, *, without_locks: bool = True) -> bool:
    """Lock a file. Returns whether it is locked; `without_locks` on a file system without locks."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True


def _release(descriptor: int) -> None:
    """Unlock and close a file."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_held(path: Path) -> bool:
    """Whether a process has an exclusive lock on the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        _release(descriptor)


def _lock_soon(descriptor: int) -> bool:
    """Take an exclusive lock, with retries because `is_arriving` takes a shared one briefly. Returns the success."""
    for _ in range(_LOCK_ATTEMPTS):
        if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
        time.sleep(_LOCK_PAUSE_SECONDS)
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
