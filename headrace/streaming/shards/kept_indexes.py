"""Loads the index of a shard through the cache folder, so that the processes of a host fetch it once."""

from headrace.errors import FormatError, NotFoundError, shard_gone
from headrace.format.indexes.index import ShardIndex, index_name
from headrace.format.indexes.index_files import parse_index
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.shards.shard_set import ShardSet


def load_index(shards: ShardSet, name: str, cache: ShardCache, patience_seconds: float) -> ShardIndex:
    """The index of a shard: from the cache, or from its store, and then kept in the cache.

    Kept are the indexes of a store whose shards are named by content.

    Args:
        shards: the shards of the folder.
        name: path of the shard there.
        cache: keeps the indexes.
        patience_seconds: how long to wait for another process that fetches it.

    Raises:
        FormatError: it is damaged.
        NotFoundError: it is gone.
        StorageError: the store failed.
    """
    if not shards.is_named_by_content or shards.storage.local_path("any") is not None:
        return _loaded(shards, name)
    if (found := _kept(cache, name)) is not None:
        return found
    with cache.index_lock(name, patience_seconds):
        if (found := _kept(cache, name)) is None:  # nor has another process fetched it meanwhile
            found = _loaded(shards, name)
            cache.keep_index(name, found.to_bytes())
    return found


def _loaded(shards: ShardSet, name: str) -> ShardIndex:
    try:
        return shards.load_index(shards.storage, name)
    except NotFoundError as error:
        if not shards.is_named_by_content:
            raise
        raise shard_gone(f"{shards.storage.uri}/{name}") from error


def _kept(cache: ShardCache, name: str) -> ShardIndex | None:
    blob = cache.kept_index(name)
    try:
        return None if blob is None else parse_index(blob, index_name(name))
    except FormatError:  # the kept file is incomplete: read the one of the store
        return None
