"""Hugging Face datasets, streaming our tars by its WebDataset reader.

Not for latents: it turns their tensors into nested lists, and streamed Parquet sleeps five seconds at an epoch's end.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import datasets
from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, SEED, SHUFFLE_BUFFER, Batch, tars

BYTES = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
"""The column as it lies in the tar: its own audio type asks for a decoder of its own, even when it is not to decode."""


def prepare(corpus: Path, kind: str) -> None:
    """Nothing: it reads our tars."""


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """A torch DataLoader over a streamed, shuffled split."""
    rows = datasets.load_dataset("webdataset", data_files=tars(corpus, kind), split="train", streaming=True)
    shuffled = rows.cast_column("flac", BYTES).shuffle(seed=SEED, buffer_size=SHUFFLE_BUFFER)

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return padded(decoded(kind, sample["flac"]["bytes"], sample["json"]) for sample in samples)

    yield from torch.utils.data.DataLoader(shuffled, batch_size=BATCH, num_workers=num_workers, collate_fn=collate)
