"""Damage to shards, for tests of what is said about it."""

from headrace.index import ShardIndex
from headrace.storage import Storage


def flip_audio(storage: Storage, index: ShardIndex, i: int) -> None:
    """Change one byte in the middle of the audio of sample `i` of a local shard."""
    start, stop = index.range_of(i, "flac")
    path = storage.local_path(index.shard)
    content = bytearray(path.read_bytes())
    content[(start + stop) // 2] ^= 0xFF
    path.write_bytes(content)
