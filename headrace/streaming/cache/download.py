"""Downloads whole shards from a store into the cache, and checks them once.

A shard is read in pieces, each with its own time limit, and compared with its digest; ranges that readers have fetched
are not fetched again. `.tar.gz` and `.tar.zst` are unpacked. `access` and `prefetch` decide when a shard is downloaded.
"""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TypeVar

from headrace.errors import IntegrityError
from headrace.format.indexes.index import ShardIndex
from headrace.format.snapshots.tar_lists import check_version
from headrace.format.tars.tar_names import is_packed_tar
from headrace.format.tars.unpacking import unpacker_of
from headrace.stores.refetch import DAMAGED_IN_STORE, until_sound
from headrace.stores.storage import Storage
from headrace.stores.waiting import is_over
from headrace.streaming.cache.cache import CacheFullError, CacheUnusableError, Incoming, ShardCache
from headrace.streaming.cache.coalesce import pieces
from headrace.streaming.cache.opened import FileShard, fields_of, is_stored
from headrace.streaming.settings import FetchSettings
from headrace.streaming.stats import Traffic

T = TypeVar("T")

_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class ShardDownload:
    """A shard to download.

    Attributes:
        storage: the store.
        source: path of the shard in the store.
        name: name of the shard in the cache.
        index: index with the unpacked size and, if known, the digest.
        stored_bytes: size of the shard in the store.
    """

    storage: Storage
    source: str
    name: str
    index: ShardIndex
    stored_bytes: int

    @property
    def is_zipped(self) -> bool:
        """Whether the shard has to be unpacked."""
        return is_packed_tar(self.source)

    @property
    def uri(self) -> str:
        """URI of the shard."""
        return f"{self.storage.uri}/{self.source}"


class Downloader:
    """Downloads shards into one cache; safe for threads."""

    def __init__(self, cache: ShardCache, config: FetchSettings, traffic: Traffic) -> None:
        self._cache = cache
        self._config = config
        self._traffic = traffic

    def fetch(self, download: ShardDownload, keep: Collection[str] = ()) -> bool:
        """Download a shard unless the cache has it or another process downloads it. Returns whether this call did.

        A compressed shard is in the cache when this returns: if another process downloads it, this call waits.

        Raises:
            CacheFullError: the cache has no room now, or another process that downloads the shard has written nothing
                for `download_timeout`.
            CacheUnusableError: the cache cannot hold the shard.
            IntegrityError: the downloaded shard is damaged, also after retries.
            StorageError: the store failed, also after retries.
        """
        return _until_sound(download, lambda wanted: self._attempt(wanted, keep))

    def fetch_unnamed(self, download: ShardDownload) -> FileShard:
        """Download a compressed shard into a file without a name, which is deleted when its last reader closes it.

        Raises:
            IntegrityError: the downloaded shard is damaged, also after retries.
            StorageError: the store failed, also after retries.
        """
        return _until_sound(download, self._to_unnamed_file)

    def _to_unnamed_file(self, download: ShardDownload) -> FileShard:
        with tempfile.TemporaryFile() as file:
            digest = hashlib.sha256()
            for data in self._unpacked(download, self._pieces(download)):
                digest.update(data)
                file.write(data)
            file.flush()
            if file.tell() != download.index.num_bytes:
                raise IntegrityError(
                    f"{download.source}: {download.index.num_bytes} bytes expected, {file.tell()} received"
                )
            _check(download, file.fileno(), digest.hexdigest())
            return FileShard.of(Path(download.source), os.dup(file.fileno()))

    def _attempt(self, download: ShardDownload, keep: Collection[str]) -> bool:
        while True:
            with self._cache.receive(download.name, download.index.num_bytes, keep) as incoming:
                if incoming is not None:
                    self._write(download, incoming, keep)
                    return True
            if not download.is_zipped or self._has_come(download):  # ranges of a compressed shard cannot be read
                return False

    def _write(self, download: ShardDownload, incoming: Incoming, keep: Collection[str]) -> None:
        digest = hashlib.sha256()
        for data in self._payload(download, keep):
            digest.update(data)
            incoming.write(data)
        try:
            _check(download, incoming.file_descriptor, digest.hexdigest())
        except IntegrityError:
            self._cache.drop_ranges(download.name)  # perhaps they are what is damaged
            raise

    def _has_come(self, download: ShardDownload) -> bool:
        """Wait while another process writes the shard; False if that process gave up.

        Raises:
            CacheFullError: the other process has written nothing for `download_timeout`.
        """
        patience = self._config.download_timeout_seconds
        written, deadline = 0, time.monotonic() + patience
        while self._cache.is_arriving(download.name) and not is_over():
            if (latest := self._cache.written_ns(download.name)) != written:
                written, deadline = latest, time.monotonic() + patience
            if time.monotonic() >= deadline:
                raise CacheFullError(
                    f"{self._cache.folder}: another process downloads {download.name}, but has written nothing for "
                    f"{patience:g} s: stop that process if it hangs, or raise download_timeout"
                )
            time.sleep(_POLL_SECONDS)
        return self._cache.find(download.name, download.index.num_bytes) is not None

    def _payload(self, download: ShardDownload, keep: Collection[str]) -> Iterator[bytes]:
        """Unpacked bytes of the shard."""
        if not download.is_zipped:
            yield from self._pieces(download)
            return
        if not self._config.keep_zip:
            yield from self._unpacked(download, self._pieces(download))
            return
        name = download.name + PurePath(download.source).suffix
        try:
            yield from self._unpacked(download, self._kept_pieces(download, name, keep))
        except IntegrityError:
            self._cache.discard(name)  # so that it is read from the store next time
            raise

    def _unpacked(self, download: ShardDownload, pieces: Iterator[bytes]) -> Iterator[bytes]:
        unpacker = unpacker_of(download.uri)
        for piece in pieces:
            yield from unpacker.unpacked(piece)
        unpacker.finish()

    def _kept_pieces(self, download: ShardDownload, name: str, keep: Collection[str]) -> Iterator[bytes]:
        """Bytes of the shard as stored: from the cache if it has them, else from the store, kept in the cache.

        If the cache cannot keep them, they are downloaded again when they are needed again.
        """
        if (found := self._cache.find(name, download.stored_bytes)) is not None:
            yield from (bytes(found.read(start, stop)) for start, stop in pieces(0, download.stored_bytes))
            return
        fetched = self._pieces(download)
        with contextlib.suppress(CacheUnusableError), self._cache.receive(name, download.stored_bytes, keep) as kept:
            for piece in fetched:
                yield piece
                if kept is not None:
                    kept.write(piece)
        yield from fetched  # all pieces, or those after the one that could not be kept

    def _pieces(self, download: ShardDownload) -> Iterator[bytes]:
        with self._cache.kept_ranges(download.name, download.stored_bytes) as kept:
            for span in pieces(0, download.stored_bytes):  # each piece has the time limit
                parts = list(kept.parts(*span))
                wanted = [(part.start, part.stop) for part in parts if part.blob is None]
                fetched = iter(download.storage.read_ranges(download.source, wanted) if wanted else ())
                self._traffic.needed(sum(stop - start for start, stop in wanted))
                yield from (next(fetched) if part.blob is None else part.blob for part in parts)


def _until_sound(download: ShardDownload, fetch: Callable[[ShardDownload], T]) -> T:
    """Result of `fetch`, which is called again if the download is damaged."""
    return until_sound(
        lambda source: fetch(replace(download, storage=source)), download.storage, download.uri, copies=True
    )


def _check(download: ShardDownload, file_descriptor: int, sha256: str) -> None:
    """Compare a downloaded shard with its digest or, if it has none, each field with its CRC-32.

    Raises:
        IntegrityError: the shard is damaged.
    """
    index = download.index
    if index.sha256:
        if index.sha256 != sha256:
            raise IntegrityError(
                f"{download.source}: SHA-256 {index.sha256} expected, {sha256} received: {DAMAGED_IN_STORE}"
            )
        return
    check_version(download.storage, download.source, index)
    rows = ((index.key(i), index.row(i)) for i in range(len(index)))
    fields = (field for key, row in rows for field in fields_of(key, index.fields, row.spans, row.crc32))
    if (damaged := next((field for field in fields if not is_stored(field, file_descriptor)), None)) is not None:
        raise IntegrityError(
            f"{download.source}: {damaged.name}, bytes {damaged.start}..{damaged.stop}: CRC-32 {damaged.crc32:08x} "
            f"expected, another one received: {DAMAGED_IN_STORE}"
        )
