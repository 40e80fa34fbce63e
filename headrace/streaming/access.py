"""Opening the shards of one stream: in place, from the cache, or just the needed bytes from the store.

Owns that choice and the open files of this process. How shards get into the cache is `prefetch`'s and `cache`'s.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from headrace.index import ShardIndex
from headrace.streaming.coalesce import Span
from headrace.streaming.opened import FileShard, OpenShard
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shardset import Indexes, ShardSet

_FILES_KEPT = 256  # of the 1024 that a process may usually open


class ShardAccess:
    """The shards of one stream as this process reads them; safe for threads."""

    def __init__(self, shards: ShardSet, config: FetchConfig) -> None:
        self.shards = shards
        self._config = config
        self._indexes = Indexes(self._load_index)
        self._lock = threading.Lock()
        self._files: OrderedDict[int, FileShard] = OrderedDict()

    def index(self, shard: int) -> ShardIndex:
        """Index of a shard, from its sidecar or made from the shard."""
        return self._indexes.get(shard)

    def open(self, shard: int, spans: Callable[[], Sequence[Span]], *, patient: bool) -> OpenShard:
        """The shard, open for reading at least `spans`.

        Raises:
            NotFoundError: it is gone.
            IntegrityError: its size or digest is not what the index says.
        """
        with self._lock:
            if (found := self._files.get(shard)) is not None:
                self._files.move_to_end(shard)
                return found
        path = self.shards.storage.local_path(self.shards.shards.name(shard))
        assert path is not None
        opened = FileShard(path, self.index(shard).num_bytes)
        with self._lock:
            self._files[shard] = opened
            if len(self._files) > _FILES_KEPT:
                self._files.popitem(last=False)
        return opened

    def _load_index(self, shard: int) -> ShardIndex:
        return self.shards.load_index(self.shards.storage, self.shards.shards.name(shard))
