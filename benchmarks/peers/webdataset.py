"""webdataset: the pipeline of its documents, shards shuffled and samples in a buffer."""

from collections.abc import Iterator

import webdataset as wds

from benchmarks.peers.batches import collated, decoded
from benchmarks.peers.clips import BATCH, SHUFFLE_BUFFER, Batch, Run, tars_for


def prepare(run: Run) -> None:
    """Nothing: it reads our tars."""


def read(run: Run) -> Iterator[Batch]:
    """WebLoader over decoded, batched samples."""
    urls = tars_for(run)
    dataset = (
        wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False)
        .shuffle(SHUFFLE_BUFFER)
        .map(lambda sample: decoded(run, sample[run.field], sample["json"]))
        .batched(BATCH, collation_fn=lambda samples: collated(run, samples))
    )
    yield from wds.WebLoader(dataset, batch_size=None, num_workers=run.num_workers)
