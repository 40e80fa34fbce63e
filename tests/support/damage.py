"""Damages shards, for tests of the resulting errors."""

from headrace.format.indexes.index import ShardIndex
from headrace.stores.storage import Storage


def flip_audio(storage: Storage, index: ShardIndex, i: int) -> None:
    """Change one byte in the middle of the audio of sample `i` in a local shard."""
    start, stop = index.range_of(i, "flac")
    path = storage.local_path(index.shard)
    content = bytearray(path.read_bytes())
    content[(start + stop) // 2] ^= 0xFF
    path.write_bytes(content)
