"""webdataset: the pipeline of its documents, shards shuffled and samples in a buffer."""

from collections.abc import Iterator
from pathlib import Path

import webdataset as wds

from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, FIELD, SHUFFLE_BUFFER, Batch, tars


def prepare(corpus: Path, kind: str) -> None:
    """Nothing: it reads our tars."""


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """WebLoader over decoded, batched samples."""
    urls = tars(corpus, kind)
    dataset = (
        wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False)
        .shuffle(SHUFFLE_BUFFER)
        .map(lambda sample: decoded(kind, sample[FIELD[kind]], sample["json"]))
        .batched(BATCH, collation_fn=padded)
    )
    yield from wds.WebLoader(dataset, batch_size=None, num_workers=num_workers)
