"""Hugging Face datasets, streaming our tars by its WebDataset reader.

Not for latents: it turns their tensors into nested lists, and streamed Parquet sleeps five seconds at an epoch's end.
"""

from collections.abc import Iterator
from typing import Any

import torch

import datasets
from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, SEED, SHUFFLE_BUFFER, Batch, Run, tars

BYTES = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
"""The column as bytes of the tar: its audio type would need a decoder of its own, even without decoding."""


def prepare(run: Run) -> None:
    """Nothing: it reads our tars."""


def read(run: Run) -> Iterator[Batch]:
    """A torch DataLoader over a streamed, shuffled split."""
    rows = datasets.load_dataset("webdataset", data_files=tars(run), split="train", streaming=True)
    shuffled = rows.cast_column("flac", BYTES).shuffle(seed=SEED, buffer_size=SHUFFLE_BUFFER)

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return padded(decoded(run, sample["flac"]["bytes"], sample["json"]) for sample in samples)

    yield from torch.utils.data.DataLoader(shuffled, batch_size=BATCH, num_workers=run.num_workers, collate_fn=collate)
