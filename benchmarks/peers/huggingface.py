"""Hugging Face datasets as on a local disk: Arrow files mapped into memory, rows in random order."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import datasets
from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, Batch, converted, members, once, tars

COLUMNS = datasets.Features({"payload": datasets.Value("large_binary"), "json": datasets.Value("string")})


def prepare(corpus: Path, kind: str) -> None:
    """The payloads and the JSON as they are."""

    def rows() -> Iterator[dict[str, Any]]:
        for tar in tars(corpus, kind):
            for _, payload, text in members(tar, kind):
                yield {"payload": payload, "json": text.decode()}

    def convert(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            made = datasets.Dataset.from_generator(rows, features=COLUMNS, cache_dir=cache)
            made.save_to_disk(folder / "rows")

    once(converted(corpus, "huggingface", kind), convert)


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """A torch DataLoader, decoding in the collate."""
    rows = datasets.load_from_disk(converted(corpus, "huggingface", kind) / "rows")

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return padded(decoded(kind, sample["payload"], sample["json"]) for sample in samples)

    yield from torch.utils.data.DataLoader(
        rows, batch_size=BATCH, shuffle=True, num_workers=num_workers, collate_fn=collate
    )
