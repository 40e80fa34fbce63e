"""Measures the limit of `limit.py` with libsndfile, which the peers decode with."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.peers.batches import decode
from benchmarks.peers.clips import DOCUMENTED, Batch, Run
from benchmarks.peers.limit import on_threads, payloads


def prepare(run: Run) -> None:
    """Read all payloads."""
    payloads(run)


def read(run: Run) -> Iterator[Batch]:
    """Decode every clip."""
    documented = replace(run, form=DOCUMENTED)
    yield from on_threads(payloads(run), lambda blob: decode(documented, blob), run.num_workers)
