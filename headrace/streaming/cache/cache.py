"""Keeps whole shards in a folder that all processes of a host share, under a limit of bytes.

Shards get their name by an atomic rename, their size is checked on every open, and the least recently used ones are
evicted, or those that are needed last where that is known (`eviction`). Processes synchronise by `flock`, which the
kernel releases when a process dies: there is no shared memory and no barrier, and a killed process leaves nothing to
clean up. A file in the cache is never the only copy.

    .lock                  held while room is made or taken, and while a shard gets its name; short. Its time
                           changes when a shard fills the folder
    .NAME.part             a shard that is being written; the process that writes it holds its lock. Without a lock it
                           is left over from a dead process, and the next process begins it again
    NAME                   a whole shard; readers hold a shared lock, so an open shard is not evicted
    .NAME.ranges           ranges of a shard that will be downloaded, which readers fetched before (`kept_ranges`)
    NAME.idx               its index, if it came from a store
    .NAME.idx.lock         held while a process fetches the index
    .reader-ID             what a process is reading, and at which position (`cache_readers`)
"""

import contextlib
import fcntl
import os
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError, IntegrityError, NotAFileError, NotFoundError, StorageError
from headrace.machine import NO_ROOM, reserve
from headrace.streaming.cache.cache_readers import ReaderFacts, RegisteredReader, is_of_reader, register
from headrace.streaming.cache.coalesce import Span
from headrace.streaming.cache.eviction import NextUses, Turn, coldest_first, turns
from headrace.streaming.cache.kept_ranges import KeptRanges, keep_ranges, stored_bytes
from headrace.streaming.cache.opened import FileShard
from headrace.streaming.cache.room import RoomForRanges, filled, note_use
from headrace.streaming.concurrency.file_locks import is_at, is_held, lock, lock_soon, release, remove_unlocked
from headrace.streaming.concurrency.host_lock import locked_for_a_while

_PART = ".part"
_RANGES = ".ranges"
_INDEX = ".idx"
_INDEX_LEFT = re.compile(r"^\..*\.idx\.")
_LOCK = ".lock"
_INDEX_SHARE = 64  # part of the free room that indexes take before a process measures the folder again


class CacheUnusableError(HeadraceError, OSError):
    """The cache folder cannot take a shard: no room under its limit, a full disk, or no right to write."""


class CacheFullError(CacheUnusableError):
    """The cache has no room now: its shards are in use, or another process downloads the shard and is stuck."""


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
        self.next_uses: NextUses | None = None
        self._room_for_indexes = self._filled = 0  # changed only under the lock of the folder
        self._room_for_ranges = RoomForRanges()

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
        except StorageError as error:
            if isinstance(error.__cause__, PermissionError):  # of another user; `receive` says so
                return None
            raise
        if not lock(found.file_descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return None  # being evicted
        with contextlib.suppress(OSError):
            os.utime(found.file_descriptor)
        return found

    def is_arriving(self, name: str) -> bool:
        """Whether a process is writing the shard, or has renamed it but not released its lock yet."""
        return is_held(self._part(name)) or is_held(self.folder / name)

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
            if part is None or self._is_there(name):
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
            self.drop_ranges(name)

    def _is_there(self, name: str) -> bool:
        """Whether the folder has a shard. Raises `CacheUnusableError` if this user may not read it."""
        path = self.folder / name
        with self._translated():
            if not path.exists():
                return False
        if not os.access(path, os.R_OK, effective_ids=True):
            raise CacheUnusableError(
                f"{path}: another user's file, which this user may not read: choose another local=…, or let that user "
                "fill the cache with umask 002"
            )
        return True

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
            is_free = lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_free:
                self.discard(name)
            return is_free
        finally:
            release(descriptor)

    def discard(self, name: str) -> None:
        """Remove a shard, even if it is open; its readers can continue."""
        for path in (self.folder / name, self.folder / f"{name}{_INDEX}"):
            with contextlib.suppress(OSError):
                path.unlink()

    def discard_copy(self, opened: FileShard) -> bool:
        """Remove the shard of an open file, unless its name belongs to another copy now. Returns whether it did."""
        is_here = is_at(opened.file_descriptor, opened.path)
        if is_here:
            self.discard(opened.path.name)
        return is_here

    def evict_coldest(self, keep: Collection[str] = ()) -> str | None:
        """Remove the least recently used shard that no process has open. Returns its name."""
        shards = (kept for kept in coldest_first(self._files(), _INDEX) if kept.is_shard and kept.name not in keep)
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
            with self._folder_lock() as folder:
                self._reserve_for_index(len(blob), self.limit_bytes, folder)
                self._write_index(name, blob)

    def register(self, facts: ReaderFacts) -> RegisteredReader:
        """Record what this process reads, for other processes that make room.

        Raises:
            CacheUnusableError: no room, or no right to write.
        """
        self._make_folder()
        with self._translated(), self._folder_lock() as folder:
            if self.limit_bytes is not None:
                self._reserve_for_index(len(facts.to_bytes()), self.limit_bytes, folder)
            return register(self.folder, facts)

    def index_lock(self, name: str, patience_seconds: float) -> AbstractContextManager[None]:
        """Lock of a shard's index: one process of the host fetches it, while others wait, but not for ever."""
        return locked_for_a_while(self.folder / f".{name}{_INDEX}{_LOCK}", patience_seconds)

    def expect(self, name: str) -> None:
        """Have readers keep the ranges that they fetch of a shard, as it will be downloaded; a failure is no error."""
        path = self.folder / name
        with contextlib.suppress(OSError):
            if not path.exists():
                self._make_folder()
                release(self._opened(self._ranges(name)))
                if path.exists():  # another process has just downloaded it
                    self.drop_ranges(name)

    def kept_ranges(self, name: str, num_bytes: int) -> KeptRanges:
        """The ranges that readers have fetched of a shard of this size."""
        return KeptRanges(self._ranges(name), num_bytes)

    def keep_ranges(self, name: str, num_bytes: int, ranges: Sequence[tuple[Span, memoryview]]) -> None:
        """Keep ranges of a shard that is expected, if there is room without evicting; a failure is no error."""
        path, limit = self._ranges(name), self.limit_bytes
        with contextlib.suppress(OSError):
            if limit is None:
                keep_ranges(path, num_bytes, ranges)
            elif path.exists():
                with self._folder_lock() as folder:
                    wanted = stored_bytes(ranges)
                    if self._room_for_ranges.takes(wanted, filled(folder), lambda: limit - self.usage_bytes()):
                        keep_ranges(path, num_bytes, ranges)

    def drop_ranges(self, name: str) -> None:
        """Forget the ranges that readers have fetched of a shard."""
        with contextlib.suppress(OSError):
            self._ranges(name).unlink()

    def _write_index(self, name: str, blob: bytes) -> None:
        temporary = self.folder / f".{name}{_INDEX}.{uuid.uuid4().hex}"  # process ids are not unique among containers
        temporary.write_bytes(blob)
        temporary.rename(self.folder / f"{name}{_INDEX}")

    def _reserve_for_index(self, num_bytes: int, limit: int, folder: int) -> None:
        """Make room for an index; the folder is not measured for each one, as there may be a million."""
        if num_bytes > self._room_for_indexes or filled(folder) != self._filled:
            self._filled = filled(folder)
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
            if not lock_soon(part):
                release(part)
                yield None
                return
            if is_at(part, path):
                break
            release(part)  # another process renamed or removed it between the two steps
        try:
            with self._translated():
                os.ftruncate(part, 0)
            yield part
        finally:
            if is_at(part, path):
                with contextlib.suppress(OSError):
                    path.unlink()
            release(part)

    def _reserve(self, part: int, num_bytes: int, keep: Collection[str]) -> None:
        """Make room for the file and give it its final size, which counts against the limit."""
        with self._folder_lock() as folder:
            if self.limit_bytes is not None:
                usage = num_bytes + self._make_room(self.limit_bytes - num_bytes, keep)
                note_use(folder, usage, self.limit_bytes)
            reserve(part, num_bytes)

    def _make_room(self, budget: int, keep: Collection[str]) -> int:
        """Evict shards until at most `budget` bytes are used, or raise. Returns the number of used bytes."""
        if budget < 0:
            raise CacheUnusableError(f"{self.folder}: a shard is larger than cache_limit={self.limit_bytes}: raise it")
        for name in os.listdir(self.folder):  # noqa: PTH208 - names suffice, of perhaps a hundred thousand files
            if name[0] == ".":
                self._remove_leftover(name)
        files = list(self._files())
        usage = sum(num_bytes for _, num_bytes, _ in files)
        if usage > budget:
            coldest = [kept for kept in coldest_first(files, _INDEX) if kept.name not in keep]
            usage = self._evict_some(turns(coldest, self.next_uses), usage, budget)
        if usage > budget:
            usage -= self._drop_all_ranges(files)
        if usage > budget:
            raise CacheFullError(
                f"{self.folder}: cache_limit={self.limit_bytes} is less than the shards in use now: raise it"
            )
        return usage

    def _evict_some(self, order: Iterator[Turn], usage: int, budget: int) -> int:
        """Evict files in this order until at most `budget` bytes are used. Returns the number of used bytes."""
        while usage > budget and (turn := next(order, None)) is not None:
            if self.evict(turn.victim.name):
                usage -= turn.victim.num_bytes
                if turn.heir is not turn.victim:
                    with contextlib.suppress(OSError):
                        os.utime(self.folder / turn.heir.name, ns=(turn.victim.used_ns, turn.victim.used_ns))
        return usage

    def _drop_all_ranges(self, files: Collection[tuple[str, int, int]]) -> int:
        """Forget the ranges of all shards. Returns the number of bytes."""
        found = [(name, num_bytes) for name, num_bytes, _ in files if name[0] == "." and name.endswith(_RANGES)]
        for name, _ in found:
            (self.folder / name).unlink(missing_ok=True)
        return sum(num_bytes for _, num_bytes in found)

    def _remove_leftover(self, name: str) -> None:
        """Remove a file of a dead process."""
        with contextlib.suppress(OSError):
            if _INDEX_LEFT.search(name):  # an index may be lost
                (self.folder / name).unlink()
            elif name.endswith(_PART) or is_of_reader(name):
                remove_unlocked(self.folder / name)

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

    def _ranges(self, name: str) -> Path:
        return self.folder / f".{name}{_RANGES}"

    def _make_folder(self) -> None:
        with self._translated():
            self.folder.mkdir(parents=True, exist_ok=True)

    def _opened(self, path: Path) -> int:
        with self._translated():
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    @contextlib.contextmanager
    def _folder_lock(self) -> Iterator[int]:
        """Hold the lock of the folder. Yields the open file."""
        descriptor = self._opened(self.folder / _LOCK)
        try:
            lock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            release(descriptor)

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
