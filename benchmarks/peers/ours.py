"""Headrace: threads without workers, else worker processes and shared memory."""

from collections.abc import Iterator

import headrace.streaming.loader  # noqa: F401 - `headrace` imports late
from benchmarks.peers.clips import BATCH, Batch, Run
from headrace import StreamingDataLoader, StreamingDataset

FIELD = {"audio": "audio", "latents": "encoder_hidden"}


def prepare(run: Run) -> None:
    """Nothing: the corpus is ours."""


def read(run: Run) -> Iterator[Batch]:
    """Our batches; the last one without its padding rows."""
    dataset = StreamingDataset(remote=str(run.corpus / run.kind), batch_size=BATCH, shuffle=True)
    for batch in StreamingDataLoader(dataset, num_workers=run.num_workers):
        count = sum(map(bool, batch["keys"]))
        yield batch[FIELD[run.kind]][:count], batch["metadata"][:count]
