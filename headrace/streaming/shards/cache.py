"""A folder of whole shards, shared by all processes of a host.

Owns the files in it: they come in by an atomic rename, are size-checked on every open, and the least recently used go
out under a byte limit. All agreement between processes is by `flock`, which the kernel drops when a process dies: there
is no shared memory, no barrier, and nothing to clean up after a kill. What is here is never the only copy.

A lock belongs to the open file, and a forked child has the same one. So locks are dropped by `LOCK_UN`, which counts
for both, before the file is closed: else they would be held for as long as the child lives.

    .lock                  held while room is made, and while a shard gets its name; short
    .NAME.part             a shard on its way in; its lock is held by the process that brings it. Without a holder it is
                           a leftover, and the next one to come begins it again
    NAME                   a whole shard; readers hold a shared lock, so that what is open is not evicted
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

from headrace.errors import HeadraceError, IntegrityError, NotFoundError
from headrace.machine import NO_ROOM, reserve
from headrace.streaming.shards.opened import FileShard

_PART = ".part"
_INDEX = ".idx"
_LOCK = ".lock"
_LOCK_ATTEMPTS = 5
_LOCK_PAUSE_SECONDS = 0.002
_INDEX_SHARE = 64  # of the free room that indexes take before a process looks again what there is


class CacheUnusableError(HeadraceError, OSError):
    """The cache folder cannot take a shard: no room under its limit, a full disk, or no right to write."""


class CacheFullError(CacheUnusableError):
    """Not now: what the folder holds is in use, or another process is bringing the shard and does not get on."""


@dataclass(slots=True)
class _Kept:
    """A shard of the folder with its index, or an index alone: their size, and when it was last used or written."""

    name: str
    is_shard: bool = False
    num_bytes: int = 0
    used_ns: int = 0


@dataclass(frozen=True, slots=True)
class Incoming:
    """A shard on its way in: write it in order, then leave the `with` block."""

    file_descriptor: int

    def write(self, data: bytes | memoryview) -> None:
        """Append. Raises `CacheUnusableError` when the disk is full."""
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
        self._room_for_indexes = 0  # changes under the folder's lock alone

    def find(self, name: str, num_bytes: int) -> FileShard | None:
        """The shard, opened and marked as just used; None when it is not here.

        A file of another size is damaged: it is removed and counts as not here.
        """
        try:
            found = FileShard(self.folder / name, num_bytes)
        except (NotFoundError, NotADirectoryError):
            return None
        except IntegrityError:
            self.discard(name)
            return None
        if not _lock(found.file_descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return None  # being evicted
        with contextlib.suppress(OSError):
            os.utime(found.file_descriptor)
        return found

    def is_arriving(self, name: str) -> bool:
        """Whether some process is bringing it right now, or has just renamed it and not let go of it yet."""
        return _is_held(self._part(name)) or _is_held(self.folder / name)

    def written_ns(self, name: str) -> int:
        """When who is bringing it last wrote something; 0 if nobody is."""
        try:
            return self._part(name).stat().st_mtime_ns
        except OSError:
            return 0

    @contextlib.contextmanager
    def receive(self, name: str, num_bytes: int, keep: Collection[str] = ()) -> Iterator[Incoming | None]:
        """Bring a shard: room is made first, the file appears when the block ends without an error.

        Args:
            name: the shard.
            num_bytes: its size.
            keep: shards that must not be evicted for it.

        Yields:
            Where to write; None when another process is bringing it, or it is here already.

        Raises:
            CacheUnusableError: it cannot be taken in.
        """
        with self._owned_part(name) as part:
            if part is None or (self.folder / name).exists():
                yield None
                return
            with self._translated():
                self._reserve(part, num_bytes, keep)
            yield Incoming(part)
            if os.lseek(part, 0, os.SEEK_CUR) != num_bytes:
                raise IntegrityError(f"{name}: {num_bytes} bytes announced, {os.lseek(part, 0, os.SEEK_CUR)} came")
            with self._translated():
                os.fsync(part)  # a power cut must not leave a whole-looking file of zeros
                with self._folder_lock():  # who makes room and looks meanwhile would find neither of the two names
                    self._part(name).rename(self.folder / name)

    def evict(self, name: str) -> bool:
        """Remove a shard that nobody has open. Returns whether it is gone."""
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            (self.folder / f"{name}{_INDEX}").unlink(missing_ok=True)  # may have outlived it
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
        """Remove a shard, even if it is open: who has opened it reads on."""
        for path in (self.folder / name, self.folder / f"{name}{_INDEX}"):
            with contextlib.suppress(OSError):
                path.unlink()

    def evict_coldest(self, keep: Collection[str] = ()) -> str | None:
        """Remove the shard that was not used for longest, of those that nobody has open. Returns its name."""
        shards = (kept for kept in self._coldest_first() if kept.is_shard and kept.name not in keep)
        return next((kept.name for kept in shards if self.evict(kept.name)), None)

    def usage_bytes(self) -> int:
        """Size of all files in the folder, shards on their way in included."""
        return sum(num_bytes for _, num_bytes, _ in self._files())

    def keep_index(self, name: str, blob: bytes) -> None:
        """Keep a shard's index beside it, making room as for a shard; a folder that cannot take it is no error."""
        with contextlib.suppress(OSError):
            self._make_folder()
            if self.limit_bytes is None:
                self._write_index(name, blob)
                return
            with self._folder_lock():
                self._reserve_for_index(len(blob), self.limit_bytes)
                self._write_index(name, blob)

    def _write_index(self, name: str, blob: bytes) -> None:
        temporary = self.folder / f".{name}{_INDEX}.{uuid.uuid4().hex}"  # containers have the same process ids
        temporary.write_bytes(blob)
        temporary.rename(self.folder / f"{name}{_INDEX}")

    def _reserve_for_index(self, num_bytes: int, limit: int) -> None:
        """Make room for an index, or know of some: the folder is not looked through for each of a million."""
        if num_bytes > self._room_for_indexes:
            usage = self.usage_bytes()
            if usage + num_bytes > limit:
                usage = self._make_room(limit - max(num_bytes, limit // _INDEX_SHARE), ())
            self._room_for_indexes = num_bytes + (limit - usage - num_bytes) // _INDEX_SHARE
        self._room_for_indexes -= num_bytes

    def kept_index(self, name: str) -> bytes | None:
        """A kept index; None when there is none."""
        try:
            return (self.folder / f"{name}{_INDEX}").read_bytes()
        except OSError:
            return None

    @contextlib.contextmanager
    def _owned_part(self, name: str) -> Iterator[int | None]:
        """The file that the shard is written to, locked and empty; None when another process holds it."""
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
            _release(part)  # its last holder renamed or removed it between the two steps
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
        """Give the file its final size, which counts against the limit, after making room for it."""
        with self._folder_lock():
            if self.limit_bytes is not None:
                self._room_for_indexes = 0
                self._make_room(self.limit_bytes - num_bytes, keep)
            reserve(part, num_bytes)

    def _make_room(self, budget: int, keep: Collection[str]) -> int:
        """Evict until no more than `budget` bytes are used, or raise; returns how many are."""
        if budget < 0:
            raise CacheUnusableError(f"{self.folder}: a shard is larger than cache_limit={self.limit_bytes}: raise it")
        for leftover in self.folder.glob(f".*{_PART}"):
            self._remove_leftover(leftover)
        for leftover in self.folder.glob(f".*{_INDEX}.*"):  # of the killed; one in the making is lost, no more
            with contextlib.suppress(OSError):
                leftover.unlink()
        usage = self.usage_bytes()
        for kept in self._coldest_first() if usage > budget else ():
            if usage > budget and kept.name not in keep and self.evict(kept.name):
                usage -= kept.num_bytes
        if usage > budget:
            raise CacheFullError(
                f"{self.folder}: cache_limit={self.limit_bytes} is less than what is in use right now: raise it"
            )
        return usage

    def _remove_leftover(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            part = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _lock(part, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_at(part, path):
                    path.unlink()
            finally:
                _release(part)

    def _coldest_first(self) -> list[_Kept]:
        """Indexes alone, then shards with their indexes; of each, those not used for longest first."""
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
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

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
        """The system's errors as `CacheUnusableError`, with the way out."""
        try:
            yield
        except HeadraceError:
            raise
        except OSError as error:
            way_out = "free some disk, or set cache_limit" if error.errno in NO_ROOM else "choose another local=…"
            raise CacheUnusableError(f"{self.folder}: {error.strerror}: {way_out}") from error


def _lock(descriptor: int, how: int) -> bool:
    """Whether a lock was had; a file system without locks counts as having given it."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _release(descriptor: int) -> None:
    """Unlock and close a file."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_held(path: Path) -> bool:
    """Whether some process has the file locked for itself."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        _release(descriptor)


def _lock_soon(descriptor: int) -> bool:
    """Whether an exclusive lock was had: `is_arriving` holds a shared one for an instant, which must not count."""
    for _ in range(_LOCK_ATTEMPTS):
        if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
        time.sleep(_LOCK_PAUSE_SECONDS)
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still is the one of that name."""
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
