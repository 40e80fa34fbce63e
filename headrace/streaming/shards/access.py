"""Opening the shards of one stream: in place, from the cache, or just the needed bytes from the store.

Owns that choice and the open files of this process. A local shard is read where it lies: never copied, never evicted.
A shard of a store is read from the cache if it is there, or awaited if it is on its way; else the wanted samples alone
come by ranged reads. A cache that cannot be used costs speed and one warning, nothing else.
"""

import contextlib
import hashlib
import threading
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from headrace.errors import FormatError, IntegrityError, StorageError
from headrace.index import ShardIndex, index_name
from headrace.lazy import cached_property
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shards.cache import CacheFullError, CacheUnusableError, ShardCache
from headrace.streaming.shards.coalesce import Span, coalesce
from headrace.streaming.shards.download import Delivery, Downloader
from headrace.streaming.shards.foreign import VERSION
from headrace.streaming.shards.open_files import OpenFiles
from headrace.streaming.shards.opened import BlobShard, FileShard, OpenShard
from headrace.streaming.shards.retry import retried
from headrace.streaming.shards.shardset import Indexes, ShardSet
from headrace.streaming.shards.unpacking import ZIP_SUFFIXES
from headrace.streaming.stats import Traffic
from headrace.tar import sha256_of

_FILES_KEPT = 256  # a few shuffle blocks
_CACHED_FILES_KEPT = 64  # an open shard is not evicted, so a process holds on to no more than about a shuffle block
_GAP_BYTES = 256 << 10  # unwanted bytes cost less than another request
_POLL_SECONDS = 0.005


class ShardAccess:
    """The shards of one stream as this process reads them; safe for threads."""

    def __init__(self, shards: ShardSet, config: FetchConfig, cache: ShardCache, traffic: Traffic) -> None:
        self.shards = shards
        self.cache = cache
        self.files = OpenFiles()
        self._config = config
        self._traffic = traffic
        self._indexes = Indexes(self._load_index)
        self._downloader = Downloader(shards.storage, cache, config, traffic)
        self._checked: set[int] = set()
        self._faults: dict[int, str] = {}
        self._without_room: dict[int, str] = {}
        self._doubted: set[int] = set()
        self._is_unusable = False
        self._has_warned = False
        self._warning = threading.Lock()

    def name(self, shard: int) -> str:
        """The shard's path in its store."""
        return self.shards.shards.name(shard)

    def cache_name(self, shard: int) -> str:
        """Its file name in the cache. Ours are named by content; others get a mark of their origin and version."""
        name = self.name(shard)
        if self.is_named_by_content:
            return name
        index = self.index(shard)
        origin = f"{self.shards.storage.uri}/{name}\0{index.sha256 or index.notes.get(VERSION, '')}"
        mark = hashlib.sha256(origin.encode()).hexdigest()[:12]
        stem = next((name.removesuffix(suffix) for suffix in ZIP_SUFFIXES if name.endswith(suffix)), None)
        return f"{mark}-{(stem + '.tar' if stem else name).rpartition('/')[2]}"

    def index(self, shard: int) -> ShardIndex:
        """Index of a shard, from its sidecar or made from the shard."""
        return self._indexes.get(shard)

    @property
    def is_named_by_content(self) -> bool:
        """Whether a shard's name alone says what is in it."""
        return self.shards.is_named_by_content

    @cached_property
    def is_local(self) -> bool:
        """Whether shards are read where they lie."""
        return len(self.shards) == 0 or self.in_place(0) is not None

    def in_place(self, shard: int) -> Path | None:
        """The local file that is read where it lies; None for a shard that has to be fetched or unpacked."""
        name = self.name(shard)
        return None if name.endswith(ZIP_SUFFIXES) else self.shards.storage.local_path(name)

    def open_file(self, shard: int, *, patient: bool) -> FileShard | None:
        """The shard as a local file, in place or from the cache; None while it is only in its store.

        Args:
            shard: its number.
            patient: await it if it is on its way, for as long as `download_timeout`.

        Raises:
            NotFoundError: it is gone.
            IntegrityError: its size or digest is not what the index says.
        """
        if (found := self.files.get(shard)) is not None:
            return found
        if (path := self.in_place(shard)) is not None:
            return self._kept(shard, self._opened_in_place(shard, path), _FILES_KEPT)
        if (cached := self._cached(shard, patient=patient)) is None:
            return None
        self._traffic.hit()
        return self._kept(shard, cached, _CACHED_FILES_KEPT)

    def open(self, shard: int, spans: Callable[[], Sequence[Span]], *, patient: bool) -> OpenShard:
        """The shard, open for reading at least `spans`.

        Args:
            shard: its number.
            spans: what will be read of it; asked only for ranged reads.
            patient: await it if it is on its way, for as long as `download_timeout`.

        Raises:
            NotFoundError: it is gone.
            IntegrityError: its size or digest is not what the index says.
            StorageError: the store failed, also when tried again; or no cache can hold a compressed shard.
        """
        if (found := self.open_file(shard, patient=patient)) is not None:
            return found
        self._traffic.missed()
        if (fault := self._faults.get(shard)) is not None:
            raise IntegrityError(fault)
        if self.name(shard).endswith(ZIP_SUFFIXES):
            return self._unpacked(shard)
        if (reason := self._without_room.get(shard)) is not None:
            self._warn(reason)
        return self._ranged(shard, spans())

    def bring(self, shard: int, keep: Collection[str] = ()) -> bool:
        """Download a shard into the cache, whole. Returns whether this call brought it.

        A cache that can never take it costs one warning. A shard that comes damaged each time is not read by ranges
        either from then on.

        Raises:
            CacheFullError: the cache cannot take it for now.
            IntegrityError: what comes is damaged, each time.
            StorageError: the store fails, each time.
        """
        if self.in_place(shard) is not None:
            return False
        try:
            brought = self._into_cache(self._delivery(shard), keep)
        except CacheFullError as error:
            self._without_room[shard] = str(error)
            raise
        except CacheUnusableError as error:
            self._is_unusable = True
            self._warn(str(error))
            return False
        except IntegrityError as error:
            self._faults[shard] = str(error)
            raise
        self._without_room.pop(shard, None)
        return brought

    def _unpacked(self, shard: int) -> FileShard:
        """A compressed shard from the cache; while batches under way take all the room there, for this batch alone."""
        while True:
            try:
                self.bring(shard)
            except CacheFullError as error:
                self._warn(str(error))
                return self._downloader.bring_apart(self._delivery(shard))
            if (cached := self._cached(shard, patient=True)) is not None:
                return self._kept(shard, cached, _CACHED_FILES_KEPT)
            if self._is_unusable:
                raise StorageError(
                    f"{self.name(shard)}: compressed, so only read from the cache, and {self.cache.folder} cannot hold "
                    "it: raise cache_limit, make room there, point local= to another folder, or store the shard as .tar"
                )

    def _delivery(self, shard: int) -> Delivery:
        index, name = self.index(shard), self.name(shard)
        stored = self.shards.storage.size(name) if name.endswith(ZIP_SUFFIXES) else index.num_bytes
        return Delivery(name, self.cache_name(shard), index, stored)

    def _into_cache(self, delivery: Delivery, keep: Collection[str]) -> bool:
        try:
            return self._downloader.bring(delivery, keep)
        except CacheFullError:
            self.close_idle()  # what this process only holds open in case it comes again
            return self._downloader.bring(delivery, keep)

    def let_go(self, shard: int) -> None:
        """A shard is not needed soon: it may be evicted, if it is one of the cache."""
        if self.in_place(shard) is None:
            self.files.let_go(shard)

    def doubt(self, shard: int) -> None:
        """What was read of a shard is damaged. If it may be its copy in the cache that is, that goes and comes anew.

        Of a shard whose digest is known, the copy's is compared with it, once: what is damaged in the store stays.
        """
        if self.in_place(shard) is not None or shard in self._doubted:
            return
        self._doubted.add(shard)
        wanted, name = self.index(shard).sha256, self.cache_name(shard)
        if wanted:
            cached = self.cache.find(name, self.index(shard).num_bytes)
            if cached is None or _digest_of(cached) == wanted:
                return
            warnings.warn(
                f"{cached.path}: its SHA-256 is no longer {wanted}: this copy in the cache was damaged and has been "
                "removed; it comes anew. If that happens again, check the disk",
                stacklevel=2,
            )
        self.files.let_go(shard)
        self.cache.discard(name)

    def close_idle(self) -> None:
        """Close what is open, so that it may be evicted; readers under way keep theirs."""
        self.files.clear()

    def _opened_in_place(self, shard: int, path: Path) -> FileShard:
        opened = FileShard(path, self.index(shard).num_bytes)
        if (found := self._other_digest(shard, opened)) is not None:
            wanted = self.index(shard).sha256
            way_out = "" if self.is_named_by_content else ", or run `headrace index` if it was changed on purpose"
            raise IntegrityError(f"{path}: SHA-256 {wanted} expected, {found} found: damaged; copy it again{way_out}")
        return opened

    def _is_sound(self, shard: int, cached: FileShard) -> bool:
        """Whether a shard of the cache is still what came, as far as `validate_hash` asks; if not, it is removed."""
        if self._other_digest(shard, cached) is None:
            return True
        self.cache.discard(cached.path.name)
        return False

    def _other_digest(self, shard: int, opened: FileShard) -> str | None:
        """The digest of a file just opened if it is to be checked and is not the shard's; each is checked once."""
        wanted = self.index(shard).sha256
        if not self._config.validate_hash or not wanted or shard in self._checked:
            return None
        if (found := _digest_of(opened)) != wanted:
            return found
        self._checked.add(shard)
        return None

    def _cached(self, shard: int, *, patient: bool) -> FileShard | None:
        name, num_bytes = self.cache_name(shard), self.index(shard).num_bytes
        found = self.cache.find(name, num_bytes)
        deadline = time.monotonic() + self._config.download_timeout_seconds
        while found is None and patient and self.cache.is_arriving(name) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            found = self.cache.find(name, num_bytes)
        found = found or (self.cache.find(name, num_bytes) if patient else None)
        return found if found is None or self._is_sound(shard, found) else None

    def _ranged(self, shard: int, spans: Sequence[Span]) -> BlobShard:
        """Just these spans, near ones in one request."""
        name, storage = self.name(shard), self.shards.storage
        requests = coalesce(spans, max_gap_bytes=_GAP_BYTES)
        ranges = [(request.start, request.stop) for request in requests]
        try:
            blobs = retried(lambda: storage.read_ranges(name, ranges), self._config, f"{storage.uri}/{name}")
        except StorageError as error:
            self._check_size(shard, error)
            raise
        self._traffic.fetched(sum(map(len, blobs)))
        return BlobShard(name, ranges, blobs)

    def _check_size(self, shard: int, failure: StorageError) -> None:
        """Raise `IntegrityError` if ranges could not be read because the store's file is not what was indexed."""
        name, wanted = self.name(shard), self.index(shard).num_bytes
        found = wanted
        with contextlib.suppress(StorageError):
            found = self.shards.storage.size(name)
        if found != wanted:
            raise IntegrityError(
                f"{self.shards.storage.uri}/{name}: {wanted} bytes expected, {found} found: damaged or cut off; "
                "copy it again"
            ) from failure

    def _kept(self, shard: int, opened: FileShard, num_kept: int) -> FileShard:
        self.files.keep(shard, opened, num_kept)
        return opened

    @cached_property
    def _is_kept(self) -> bool:
        """Whether indexes are kept in the cache: they come from a store, under names that say what is in them."""
        return self.is_named_by_content and self.shards.storage.local_path("any") is None

    def _load_index(self, shard: int) -> ShardIndex:
        storage, name = self.shards.storage, self.name(shard)
        if self._is_kept and (blob := self.cache.kept_index(self.cache_name(shard))) is not None:
            try:
                return ShardIndex.from_bytes(blob, index_name(name))
            except FormatError:  # cut off on this disk: the store has the whole one
                pass
        index = retried(lambda: self.shards.load_index(storage, name), self._config, f"{storage.uri}/{name}")
        if self._is_kept:
            self.cache.keep_index(self.cache_name(shard), index.to_bytes())
        return index

    def _warn(self, reason: str) -> None:
        with self._warning:  # several downloads find it out at once
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            warnings.warn(f"{reason}. Until then samples come from the store one by one, which is slower", stacklevel=2)


def _digest_of(opened: FileShard) -> str:
    with open(opened.file_descriptor, "rb", closefd=False) as file:  # its name may be gone: others check it, too
        return sha256_of(file)
