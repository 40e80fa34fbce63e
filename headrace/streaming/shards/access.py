"""Opens the shards of one stream: in place, from the cache, or only the needed bytes from the store.

A local shard is read in place: it is never copied and never evicted. A shard of a store is read from the cache if it is
there; if it is being downloaded, the reader waits for it; otherwise only the wanted samples are fetched, by ranged
reads. If the cache cannot be used, reading is slower and warns once.
"""

import contextlib
import hashlib
import threading
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from pathlib import Path

from headrace.errors import IntegrityError, StorageError, StoreUnavailableError
from headrace.format.indexes.index import VERSION_NOTE, ShardIndex
from headrace.format.lazy import cached_property
from headrace.format.snapshots.tar_lists import check_version
from headrace.format.tars.tar_names import TAR_SUFFIX, is_packed_tar, without_suffix
from headrace.stores.concurrent_requests import map_on_threads
from headrace.stores.refetch import DAMAGED_IN_STORE, say, sources, times
from headrace.stores.storage import Storage
from headrace.stores.waiting import wait
from headrace.streaming.cache.cache import CacheFullError, CacheUnusableError, ShardCache
from headrace.streaming.cache.coalesce import Span, coalesce, pieces, without_gaps
from headrace.streaming.cache.download import Downloader, ShardDownload
from headrace.streaming.cache.open_files import OpenFiles
from headrace.streaming.cache.opened import BlobShard, FileShard, OpenShard, StoredField, digest_of, holds
from headrace.streaming.settings import FetchSettings
from headrace.streaming.shards.foreign import IndexKeeper
from headrace.streaming.shards.kept_indexes import load_index
from headrace.streaming.shards.shard_set import IndexCache, ShardSet, SnapshotShards
from headrace.streaming.stats import Traffic

_FILES_KEPT = 256  # a few shuffle blocks
_CACHED_FILES_KEPT = 64  # an open shard is not evicted, so a process keeps no more than about a shuffle block open
_GAP_BYTES = 256 << 10  # this many unwanted bytes cost less than another request
_GAP_OF_PARTS_BYTES = 8 << 10  # if only some fields are wanted, those between them are not fetched
_POLL_SECONDS = 0.005


class ShardAccess:
    """The shards of one stream as this process reads them; safe for threads."""

    def __init__(self, shards: ShardSet, config: FetchSettings, cache: ShardCache, traffic: Traffic) -> None:
        self.shards = shards
        self.cache = cache
        self.files = OpenFiles()
        self.reads_parts = False
        """Whether only some fields of samples are wanted, so that ranged reads leave out what is between them."""
        self.reads_cuts = False
        """Whether only parts of samples are wanted in time, so that long audio is read in parts."""
        self._config = config
        self._traffic = traffic
        self._indexes = IndexCache()
        self._downloader = Downloader(cache, config, traffic)
        self._checked: set[int] = set()
        self._without_room: dict[int, str] = {}
        self._is_unusable = False
        self._has_warned = False
        self._warning = threading.Lock()

    def name(self, shard: int) -> str:
        """The shard's path in its store."""
        return self.shards.shards.name(shard)

    def cache_name(self, shard: int) -> str:
        """File name of a shard in the cache; one that is not named by content gets a prefix of its origin."""
        name = self.name(shard)
        if self.is_named_by_content:
            return name
        index = self.index(shard)
        origin = f"{self.shards.storage.uri}/{name}\0{index.sha256 or index.notes.get(VERSION_NOTE, '')}"
        mark = hashlib.sha256(origin.encode()).hexdigest()[:12]
        return f"{mark}-{without_suffix(name).rpartition('/')[2]}{TAR_SUFFIX}"

    def index(self, shard: int) -> ShardIndex:
        """Index of a shard, from its index file or made from the shard."""
        return self._indexes.get(shard, self._load_index)

    def form_of_latents(self, output: int = 0) -> tuple[int, str]:
        """Width D and dtype of an output, from the first shard that has latents; (0, "float32") if no shard has."""
        forms = self._forms_of_latents
        return forms[output] if output < len(forms) else (0, "float32")

    @cached_property
    def _forms_of_latents(self) -> list[tuple[int, str]]:
        for shard in range(len(self.shards)):
            index = self.index(shard)
            if index.outputs:
                widths = index.tensors[:, :, 3].max(0).tolist()
                return [(width, output.dtype) for width, output in zip(widths, index.outputs, strict=True)]
        return []

    @cached_property
    def has_time_axis(self) -> bool:
        """See `SnapshotShards.has_time_axis`; true for shards of which no table has the frames."""
        shards = self.shards.shards
        return not isinstance(shards, SnapshotShards) or shards.has_time_axis

    @property
    def is_named_by_content(self) -> bool:
        """Whether the name of a shard identifies its content."""
        return self.shards.is_named_by_content

    @cached_property
    def is_local(self) -> bool:
        """Whether shards are read in place."""
        return len(self.shards) == 0 or self.in_place(0) is not None

    def in_place(self, shard: int) -> Path | None:
        """Path of a shard that is read in place; None for a shard that has to be fetched or unpacked."""
        name = self.name(shard)
        return None if is_packed_tar(name) else self.shards.storage.local_path(name)

    def open_file(self, shard: int, *, patient: bool) -> FileShard | None:
        """Open a shard as a local file, in place or from the cache; None if it is only in its store.

        Args:
            shard: number of the shard.
            patient: if the shard is being downloaded, wait for it, for at most `download_timeout`.

        Raises:
            NotFoundError: the shard is gone.
            IntegrityError: its size or digest differs from the index.
        """
        if (found := self.files.get(shard)) is not None:
            return found
        if (path := self.in_place(shard)) is not None:
            return self._kept(shard, self._opened_in_place(shard, path), _FILES_KEPT)
        if (cached := self._cached(shard, patient=patient)) is None:
            return None
        self._traffic.hit()
        return self._kept(shard, cached, _CACHED_FILES_KEPT)

    def open(self, shard: int, samples: Callable[[], Sequence[Sequence[StoredField]]], *, patient: bool) -> OpenShard:
        """Open a shard for reading at least these samples.

        Bytes from ranged reads are compared with their checksums, and fetched again if they are damaged. Reading a
        field that is still damaged raises `IntegrityError`.

        Args:
            shard: number of the shard.
            samples: gives the fields of each sample that will be read; called only for ranged reads.
            patient: if the shard is being downloaded, wait for it, for at most `download_timeout`.

        Raises:
            NotFoundError: the shard is gone.
            IntegrityError: its size or digest differs from the index.
            StorageError: the store failed, also after retries; or no cache can hold a compressed shard.
        """
        if (found := self.open_file(shard, patient=patient)) is not None:
            return found
        self._traffic.missed()
        if is_packed_tar(self.name(shard)):
            return self._unpacked(shard)
        if (reason := self._without_room.get(shard)) is not None:
            self._warn(reason)
        return self._ranged(shard, [fields for fields in samples() if fields])

    def fetch_parts(self, shard: int, opened: BlobShard, spans: Sequence[Span]) -> None:
        """Fetch bytes of long audio, which are not compared with a checksum, for a shard that is read by ranges.

        Raises:
            StorageError: the store failed, also after retries.
        """
        self._fetch_spans(self.shards.storage, shard, spans, opened, _GAP_OF_PARTS_BYTES)

    def fetch(self, shard: int, keep: Collection[str] = ()) -> bool:
        """Download a whole shard into the cache. Returns whether this call downloaded it.

        If the cache can never hold the shard, warn once. The intact samples of a shard that is damaged in its store can
        still be read by ranges.

        Raises:
            CacheFullError: the cache has no room at the moment.
            IntegrityError: the downloaded shard is damaged, also after retries.
            StorageError: the store failed, also after retries.
        """
        if self.in_place(shard) is not None:
            return False
        try:
            fetched = self._into_cache(self._download(shard), keep)
        except CacheFullError as error:
            self._without_room[shard] = str(error)
            raise
        except CacheUnusableError as error:
            self._is_unusable = True
            self._warn(str(error))
            return False
        self._without_room.pop(shard, None)
        return fetched

    def expect(self, shard: int) -> None:
        """Have ranges that are fetched of a shard kept for its download, which follows soon."""
        if not self._is_unusable and not is_packed_tar(self.name(shard)):
            self.cache.expect(self.cache_name(shard))

    def _unpacked(self, shard: int) -> FileShard:
        """A compressed shard from the cache; if batches under way need all its room, in a file for this batch only."""
        while True:
            try:
                self.fetch(shard)
            except CacheFullError as error:
                self._warn(str(error))
                return self._downloader.fetch_unnamed(self._download(shard))
            if (cached := self._cached(shard, patient=True)) is not None:
                return self._kept(shard, cached, _CACHED_FILES_KEPT)
            if self._is_unusable:
                raise StorageError(
                    f"{self.name(shard)}: compressed, so it is read from the cache, and {self.cache.folder} cannot "
                    "hold it: raise cache_limit, make room there, pass another local=, or store the shard as .tar"
                )

    def _download(self, shard: int) -> ShardDownload:
        index, name = self.index(shard), self.name(shard)
        stored = self.shards.storage.size(name) if is_packed_tar(name) else index.num_bytes
        return ShardDownload(self.shards.storage, name, self.cache_name(shard), index, stored)

    def _into_cache(self, download: ShardDownload, keep: Collection[str]) -> bool:
        try:
            return self._downloader.fetch(download, keep)
        except CacheFullError:
            self.close_idle()  # files that this process keeps open for later use
            return self._downloader.fetch(download, keep)

    def let_go(self, shard: int) -> None:
        """Release a shard that is not needed soon, so that it can be evicted from the cache."""
        if self.in_place(shard) is None:
            self.files.let_go(shard)

    def renewed(self, shard: int, opened: OpenShard | None, fields: Sequence[StoredField]) -> OpenShard | None:
        """Handle a damaged read: if the bytes came from the cache, delete the cached shard and read from the store.

        Args:
            shard: number of the shard.
            opened: the shard as it was read.
            fields: fields of the sample.

        Returns:
            None if reading again would give the same bytes: they have their checksums, they are in a local folder, or
            they were read by ranges, which compares checksums.

        Raises:
            NotFoundError: the shard is gone.
            IntegrityError: the bytes in the store are damaged, also after retries.
            StorageError: the store failed.
        """
        if not isinstance(opened, FileShard) or self.in_place(shard) is not None or holds(opened, fields):
            return None
        self.files.let_go(shard)
        if self.cache.discard_copy(opened):
            warnings.warn(
                f"{opened.path}: {fields[0].name} no longer has its CRC-32: this copy in the cache was damaged and has "
                "been removed; the store is read instead. If this happens again, check the disk",
                stacklevel=2,
            )
        return self._unpacked(shard) if is_packed_tar(self.name(shard)) else self._ranged(shard, [fields])

    def close_idle(self) -> None:
        """Close the kept files, so that their shards can be evicted; readers under way keep theirs open."""
        self.files.clear()

    def _opened_in_place(self, shard: int, path: Path) -> FileShard:
        opened = FileShard(path, self.index(shard).num_bytes)
        check_version(self.shards.storage, self.name(shard), self.index(shard))
        if (found := self._other_digest(shard, opened)) is not None:
            wanted = self.index(shard).sha256
            way_out = "" if self.is_named_by_content else ", or run `headrace index` if it was changed on purpose"
            raise IntegrityError(f"{path}: SHA-256 {wanted} expected, {found} found: damaged; copy it again{way_out}")
        return opened

    def _is_sound(self, shard: int, cached: FileShard) -> bool:
        """Whether a cached shard has its digest, if `validate_hash` requires it; if not, it is removed."""
        if self._other_digest(shard, cached) is None:
            return True
        self.cache.discard(cached.path.name)
        return False

    def _other_digest(self, shard: int, opened: FileShard) -> str | None:
        """The digest of a file if it is checked and differs from the index, else None; each shard is checked once."""
        wanted = self.index(shard).sha256
        if not self._config.validate_hash or not wanted or shard in self._checked:
            return None
        if (found := digest_of(opened)) != wanted:
            return found
        self._checked.add(shard)
        return None

    def _cached(self, shard: int, *, patient: bool) -> FileShard | None:
        name, num_bytes = self.cache_name(shard), self.index(shard).num_bytes
        found = self.cache.find(name, num_bytes)
        deadline = time.monotonic() + self._config.download_timeout_seconds
        while found is None and patient and self.cache.is_arriving(name) and time.monotonic() < deadline:
            if not wait(_POLL_SECONDS):
                break
            found = self.cache.find(name, num_bytes)
        found = found or (self.cache.find(name, num_bytes) if patient else None)
        return found if found is None or self._is_sound(shard, found) else None

    def _ranged(self, shard: int, samples: Sequence[Sequence[StoredField]]) -> BlobShard:
        """Fetch only these samples; samples with a damaged field are fetched again."""
        name = f"{self.shards.storage.uri}/{self.name(shard)}"
        opened = BlobShard(name, lambda start, stop: self._part(shard, start, stop))
        damaged: list[StoredField] = []
        attempts = 0
        for source in sources(self.shards.storage):
            if attempts == 1:
                say(name, f"{damaged[0].name} has another CRC-32")
            attempts += 1
            spans = self._spans(samples)
            self._fetch_spans(source, shard, spans if damaged else self._not_kept(shard, spans, opened), opened)
            samples = [fields for fields in samples if not all(map(opened.is_sound, fields))]
            damaged = [field for fields in samples for field in fields if not opened.is_sound(field)]
            if not damaged:
                break
        for field in damaged:
            opened.mark_damaged(field, f"{times(attempts)}: {DAMAGED_IN_STORE}")
        if damaged:
            self._forget_index(shard)
        elif attempts == 1:
            self.cache.keep_ranges(self.cache_name(shard), self.index(shard).num_bytes, opened.pieces)
        return opened

    def _not_kept(self, shard: int, spans: Sequence[Span], opened: BlobShard) -> list[Span]:
        """Add the spans to a shard that were fetched before and are kept in the cache. Returns the others."""
        with self.cache.kept_ranges(self.cache_name(shard), self.index(shard).num_bytes) as kept:
            found = {span: kept.read(*span) for span in spans}
        there = {span: blob for span, blob in found.items() if blob is not None}
        opened.add(list(there), list(there.values()))
        return [span for span in spans if span not in there]

    def _spans(self, samples: Sequence[Sequence[StoredField]]) -> list[Span]:
        """Byte ranges to fetch: of each sample, or of each field if only some fields are wanted."""
        if self.reads_parts:
            return [(field.start, field.stop) for fields in samples for field in fields]
        of_samples = ([(field.start, field.stop) for field in fields] for fields in samples)
        return [span for spans in of_samples for span in without_gaps(spans, _GAP_BYTES)]  # one without long gaps

    def _part(self, shard: int, start: int, stop: int) -> bytes:
        """Bytes of a shard in its store, for a decoder that reads a part of a field."""
        self._traffic.needed(stop - start)
        return self.shards.storage.read_ranges(self.name(shard), [(start, stop)])[0]

    def _forget_index(self, shard: int) -> None:
        """Discard an index that was made from the shard itself, whose bytes may have been damaged at that time."""
        if isinstance(keeper := self.shards.load_index, IndexKeeper):
            keeper.forget(self.shards.storage, self.name(shard))
            self._indexes.forget(shard)

    def _fetch_spans(
        self, storage: Storage, shard: int, spans: Sequence[Span], opened: BlobShard, gap_bytes: int = _GAP_BYTES
    ) -> None:
        """Read spans of a shard: near spans in one request, and several requests at the same time."""
        name = self.name(shard)
        gap_bytes = _GAP_OF_PARTS_BYTES if self.reads_parts else gap_bytes
        ranges = [(request.start, request.stop) for request in coalesce(spans, max_gap_bytes=gap_bytes)]
        asked = [piece for start, stop in ranges for piece in pieces(start, stop)]
        try:
            found = map_on_threads(lambda piece: storage.read_ranges(name, [piece])[0], asked, "range")
        except StoreUnavailableError:
            raise
        except StorageError as error:
            self._check_size(shard, error)
            raise
        if spans:
            check_version(storage, name, self.index(shard))
        self._traffic.needed(sum(stop - start for start, stop in set(spans)))
        read = iter(found)
        opened.add(ranges, [b"".join(islice(read, len(list(pieces(*span))))) for span in ranges])  # one is not copied

    def _check_size(self, shard: int, failure: StorageError) -> None:
        """Raise `IntegrityError` if ranges could not be read because the file has another size than its index says."""
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

    def _load_index(self, shard: int) -> ShardIndex:
        patience = self._config.download_timeout_seconds
        return load_index(self.shards, self.name(shard), self.cache, patience)

    def _warn(self, reason: str) -> None:
        with self._warning:  # several downloads may find the reason at the same time
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            warnings.warn(
                f"{reason}. Until then samples are read from the store one by one, which is slower", stacklevel=2
            )
