"""Bringing whole shards from a store into the cache, checked once on arrival.

Owns the transfer: pieces with time limits and repeats, the digest, unpacking foreign `.tar.gz` and `.tar.zst`. When and
why is `access`' and `prefetch`'s business.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from headrace.errors import IntegrityError, StorageError
from headrace.index import ShardIndex
from headrace.storage import Storage
from headrace.streaming.cache import Incoming, ShardCache
from headrace.streaming.opened import FileShard
from headrace.streaming.retry import retried
from headrace.streaming.settings import FetchConfig
from headrace.streaming.stats import Traffic
from headrace.streaming.unpacking import ZIP_SUFFIXES, unpacker_of

_POLL_SECONDS = 0.005
_PIECE_BYTES = 8 << 20  # the time limit is for a piece, so that large shards on slow lines are no failure


@dataclass(frozen=True, slots=True)
class Delivery:
    """A shard to bring.

    Attributes:
        source: its path in the store.
        name: its name in the cache.
        index: what it must be like: its unpacked size and, where known, its digest.
        stored_bytes: its size in the store.
    """

    source: str
    name: str
    index: ShardIndex
    stored_bytes: int

    @property
    def is_zipped(self) -> bool:
        """Whether it has to be unpacked."""
        return self.source.endswith(ZIP_SUFFIXES)


class Downloader:
    """Brings shards of one store into one cache; safe for threads."""

    def __init__(self, storage: Storage, cache: ShardCache, config: FetchConfig, traffic: Traffic) -> None:
        self._storage = storage
        self._cache = cache
        self._config = config
        self._traffic = traffic

    def bring(self, delivery: Delivery, keep: Collection[str] = ()) -> bool:
        """Bring a shard unless it is here or on its way by another process. Returns whether this call brought it.

        A compressed shard is here when this returns: who else brings it is waited for.

        Raises:
            CacheUnusableError: the cache cannot take it.
            IntegrityError: what comes is damaged, each time.
            StorageError: the store fails, each time.
        """
        return retried(lambda: self._attempt(delivery, keep), self._config, f"{self._storage.uri}/{delivery.source}")

    def bring_apart(self, delivery: Delivery) -> FileShard:
        """A compressed shard in a file without a name, which goes with its last reader.

        Raises:
            IntegrityError: what comes is damaged, each time.
            StorageError: the store fails, each time.
        """
        return retried(lambda: self._apart(delivery), self._config, f"{self._storage.uri}/{delivery.source}")

    def _apart(self, delivery: Delivery) -> FileShard:
        with tempfile.TemporaryFile() as file:
            for data in self._unpacked(delivery, self._pieces(delivery)):
                file.write(data)
            file.flush()
            if file.tell() != delivery.index.num_bytes:
                raise IntegrityError(
                    f"{delivery.source}: {delivery.index.num_bytes} bytes expected, {file.tell()} came"
                )
            return FileShard.of(Path(delivery.source), os.dup(file.fileno()))

    def _attempt(self, delivery: Delivery, keep: Collection[str]) -> bool:
        with self._cache.receive(delivery.name, delivery.index.num_bytes, keep) as incoming:
            if incoming is not None:
                self._write(delivery, incoming, keep)
        if incoming is None and delivery.is_zipped:  # no ranges can be read of it instead
            self._await(delivery)
        return incoming is not None

    def _write(self, delivery: Delivery, incoming: Incoming, keep: Collection[str]) -> None:
        digest = hashlib.sha256()
        for data in self._payload(delivery, keep):
            digest.update(data)
            incoming.write(data)
        if delivery.index.sha256 not in ("", digest.hexdigest()):
            raise IntegrityError(
                f"{delivery.source}: SHA-256 {delivery.index.sha256} expected, {digest.hexdigest()} came: the copy in "
                "the store or the line to it is damaged"
            )

    def _await(self, delivery: Delivery) -> None:
        """Wait for who is bringing it. Raises `StorageError` when it does not come: then it is this one's turn."""
        while self._cache.is_arriving(delivery.name):
            time.sleep(_POLL_SECONDS)
        if self._cache.find(delivery.name, delivery.index.num_bytes) is None:
            raise StorageError(f"{delivery.source}: another process began to bring it and gave up")

    def _payload(self, delivery: Delivery, keep: Collection[str]) -> Iterator[bytes]:
        """The shard's bytes, unpacked."""
        if not delivery.is_zipped:
            yield from self._pieces(delivery)
            return
        if not self._config.keep_zip:
            yield from self._unpacked(delivery, self._pieces(delivery))
            return
        name = delivery.name + PurePath(delivery.source).suffix
        try:
            yield from self._unpacked(delivery, self._kept_pieces(delivery, name, keep))
        except IntegrityError:
            self._cache.discard(name)  # so that it comes from the store next time
            raise

    def _unpacked(self, delivery: Delivery, pieces: Iterator[bytes]) -> Iterator[bytes]:
        unpacker = unpacker_of(f"{self._storage.uri}/{delivery.source}")
        for piece in pieces:
            yield unpacker.decompress(piece)
        unpacker.finish()

    def _kept_pieces(self, delivery: Delivery, name: str, keep: Collection[str]) -> Iterator[bytes]:
        """The shard as stored, from the cache if it was kept there by that name; else it is kept while it comes."""
        if (found := self._cache.find(name, delivery.stored_bytes)) is not None:
            yield from (bytes(found.read(start, stop)) for start, stop in _spans(delivery.stored_bytes))
            return
        with self._cache.receive(name, delivery.stored_bytes, keep) as kept:
            for piece in self._pieces(delivery):
                if kept is not None:
                    kept.write(piece)
                yield piece

    def _pieces(self, delivery: Delivery) -> Iterator[bytes]:
        for start, stop in _spans(delivery.stored_bytes):
            piece = retried(self._reading(delivery.source, start, stop), self._config, delivery.source)
            self._traffic.fetched(len(piece))
            yield piece

    def _reading(self, source: str, start: int, stop: int) -> Callable[[], bytes]:
        return lambda: self._storage.read_ranges(source, [(start, stop)])[0]


def _spans(num_bytes: int) -> Iterator[tuple[int, int]]:
    """The pieces of a file of that size."""
    for start in range(0, num_bytes, _PIECE_BYTES):
        yield start, min(start + _PIECE_BYTES, num_bytes)
