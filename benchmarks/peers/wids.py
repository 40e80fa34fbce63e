"""wids: random access to our tars, in the order of its chunked sampler, all shards kept open (its best by far)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import wids

from benchmarks.peers.batches import Sample, collated, decoded
from benchmarks.peers.clips import BATCH, Batch, Run, tars_for

CHUNK = 2000


class Clips(torch.utils.data.Dataset):
    """Decoded samples by number."""

    def __init__(self, run: Run) -> None:
        urls = tars_for(run)
        sizes = json.loads((run.corpus / run.kind / "sizes.json").read_text())
        shards = [{"url": url, "nsamples": sizes[Path(url).name]} for url in urls]
        self._samples = wids.ShardListDataset(
            shards, localname=lambda url: url, transformations=[], lru_size=len(shards), keep=True
        )
        self._run = run

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, dict[str, Any]]:
        sample = self._samples[number]
        return decoded(self._run, sample[f".{self._run.field}"].read(), sample[".json"].read())


def prepare(run: Run) -> None:
    """Nothing: names and counts are in `sizes.json`."""


def read(run: Run) -> Iterator[Batch]:
    """A torch DataLoader over its dataset and sampler."""
    clips = Clips(run)
    sampler = wids.DistributedChunkedSampler(clips, chunksize=CHUNK, shuffle=True)

    def collate(samples: list[Sample]) -> Batch:
        return collated(run, samples)

    yield from torch.utils.data.DataLoader(
        clips, batch_size=BATCH, sampler=sampler, num_workers=run.num_workers, collate_fn=collate
    )
