"""Headrace: threads without workers, else worker processes and shared memory."""

from collections.abc import Iterator
from pathlib import Path

import headrace.streaming.loader  # noqa: F401 - `headrace` imports late
from benchmarks.peers.clips import BATCH, Batch
from headrace import StreamingDataLoader, StreamingDataset

FIELD = {"audio": "audio", "latents": "encoder_hidden"}


def prepare(corpus: Path, kind: str) -> None:
    """Nothing: the corpus is ours."""


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """Our batches; the last one without its padding rows."""
    dataset = StreamingDataset(remote=str(corpus / kind), batch_size=BATCH, shuffle=True)
    for batch in StreamingDataLoader(dataset, num_workers=num_workers):
        count = sum(map(bool, batch["keys"]))
        yield batch[FIELD[kind]][:count], batch["metadata"][:count]
