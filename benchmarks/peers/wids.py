"""wids: random access to our tars, in the order of its chunked sampler, all shards kept open (its best by far)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import wids

from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, FIELD, Batch

CHUNK = 2000


class Clips(torch.utils.data.Dataset):
    """Decoded samples by number."""

    def __init__(self, folder: Path, kind: str) -> None:
        sizes = json.loads((folder / "sizes.json").read_text())
        shards = [{"url": str(folder / name), "nsamples": count} for name, count in sizes.items()]
        self._samples = wids.ShardListDataset(
            shards, localname=lambda url: url, transformations=[], lru_size=len(shards), keep=True
        )
        self._kind = kind

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, dict[str, Any]]:
        sample = self._samples[number]
        return decoded(self._kind, sample[f".{FIELD[self._kind]}"].read(), sample[".json"].read())


def prepare(corpus: Path, kind: str) -> None:
    """Nothing: names and counts are in `sizes.json`."""


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """A torch DataLoader over its dataset and sampler."""
    clips = Clips(corpus / kind, kind)
    sampler = wids.DistributedChunkedSampler(clips, chunksize=CHUNK, shuffle=True)
    yield from torch.utils.data.DataLoader(
        clips, batch_size=BATCH, sampler=sampler, num_workers=num_workers, collate_fn=padded
    )
