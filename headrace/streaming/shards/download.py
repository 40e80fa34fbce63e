"""Bringing whole shards from a store into the cache, checked once on arrival.

Owns the transfer: pieces with time limits and repeats, the digest, unpacking foreign `.tar.gz` and `.tar.zst`. When and
why is `access`' and `prefetch`'s business.
"""

import contextlib
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
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shards.cache import CacheFullError, CacheUnusableError, Incoming, ShardCache
from headrace.streaming.shards.opened import FileShard
from headrace.streaming.shards.retry import retried
from headrace.streaming.shards.unpacking import ZIP_SUFFIXES, unpacker_of
from headrace.streaming.stats import Traffic

_POLL_SECONDS = 0.005
_PIECE_BYTES = 8 << 20  # the time limit is for a piece, so that large shards on slow lines are no failure


class _GivenUpError(StorageError):
    """Another process began to bring the shard and did not end."""


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
            CacheFullError: the cache cannot take it now, or who else brings it writes nothing for `download_timeout`.
            CacheUnusableError: the cache cannot take it.
            IntegrityError: what comes is damaged, each time.
            StorageError: the store fails, each time.
        """
        whole = IntegrityError, _GivenUpError  # a piece that the store fails to give is tried again by itself
        return retried(lambda: self._attempt(delivery, keep), self._config, self._what(delivery), whole)

    def bring_apart(self, delivery: Delivery) -> FileShard:
        """A compressed shard in a file without a name, which goes with its last reader.

        Raises:
            IntegrityError: what comes is damaged, each time.
            StorageError: the store fails, each time.
        """
        return retried(lambda: self._apart(delivery), self._config, self._what(delivery), (IntegrityError,))

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
        """Wait for who is bringing it, for as long as that writes.

        Raises:
            CacheFullError: it writes nothing for `download_timeout`.
            _GivenUpError: it does not come: then it is this one's turn.
        """
        patience = self._config.download_timeout_seconds
        written, deadline = 0, time.monotonic() + patience
        while self._cache.is_arriving(delivery.name):
            if (latest := self._cache.written_ns(delivery.name)) != written:
                written, deadline = latest, time.monotonic() + patience
            if time.monotonic() >= deadline:
                raise CacheFullError(
                    f"{self._cache.folder}: another process is bringing {delivery.name}, but has written nothing for "
                    f"{patience:g} s: end it if it hangs, or raise download_timeout"
                )
            time.sleep(_POLL_SECONDS)
        if self._cache.find(delivery.name, delivery.index.num_bytes) is None:
            raise _GivenUpError(f"{delivery.source}: another process began to bring it and gave up")

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
        unpacker = unpacker_of(self._what(delivery))
        for piece in pieces:
            yield from unpacker.unpacked(piece)
        unpacker.finish()

    def _kept_pieces(self, delivery: Delivery, name: str, keep: Collection[str]) -> Iterator[bytes]:
        """The shard as stored, from the cache if it was kept there by that name; else it is kept while it comes.

        A cache that cannot keep it costs another download some day, no more.
        """
        if (found := self._cache.find(name, delivery.stored_bytes)) is not None:
            yield from (bytes(found.read(start, stop)) for start, stop in _spans(delivery.stored_bytes))
            return
        pieces = self._pieces(delivery)
        with contextlib.suppress(CacheUnusableError), self._cache.receive(name, delivery.stored_bytes, keep) as kept:
            for piece in pieces:
                yield piece
                if kept is not None:
                    kept.write(piece)
        yield from pieces  # all of them, or those after the one that could not be kept

    def _pieces(self, delivery: Delivery) -> Iterator[bytes]:
        for start, stop in _spans(delivery.stored_bytes):
            reading = self._reading(delivery.source, start, stop)
            piece = retried(reading, self._config, self._what(delivery), (StorageError,))
            self._traffic.fetched(len(piece))
            yield piece

    def _what(self, delivery: Delivery) -> str:
        return f"{self._storage.uri}/{delivery.source}"

    def _reading(self, source: str, start: int, stop: int) -> Callable[[], bytes]:
        return lambda: self._storage.read_ranges(source, [(start, stop)])[0]


def _spans(num_bytes: int) -> Iterator[tuple[int, int]]:
    """The pieces of a file of that size."""
    for start in range(0, num_bytes, _PIECE_BYTES):
        yield start, min(start + _PIECE_BYTES, num_bytes)
