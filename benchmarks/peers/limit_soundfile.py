"""The same limit with libsndfile, which the peers decode with."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.batches import decode
from benchmarks.peers.clips import Batch
from benchmarks.peers.limit import on_threads, payloads


def prepare(corpus: Path, kind: str) -> None:
    """Read all payloads."""
    payloads(corpus, kind)


def read(corpus: Path, kind: str, num_threads: int) -> Iterator[Batch]:
    """Decode every clip."""
    yield from on_threads(payloads(corpus, kind), lambda blob: decode(kind, blob), num_threads)
