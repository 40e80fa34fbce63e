"""Hugging Face datasets as on a local disk: Arrow files mapped into memory, rows in random order."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import datasets
from benchmarks.peers.batches import decode, decoded, padded, raw, stacked
from benchmarks.peers.clips import BATCH, DOCUMENTED, Batch, Run, members, once, tars

COLUMNS = datasets.Features({"payload": datasets.Value("large_binary"), "json": datasets.Value("string")})


def prepare(run: Run) -> None:
    """Payloads as they are; latents in the best form as the raw bytes of their arrays, which nothing decodes.

    Its own Array2D was tried: it copies a batch through Arrow's lists, at a third of the rate of raw bytes.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for tar in tars(run):
            for _, payload, text in members(tar, run.kind):
                yield {"payload": stored(payload), "json": text.decode()}

    def stored(payload: bytes) -> bytes:
        return decode(replace(run, form=DOCUMENTED), payload).numpy().tobytes() if run.has_arrays else payload

    def convert(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            made = datasets.Dataset.from_generator(rows, features=COLUMNS, cache_dir=cache)
            made.save_to_disk(folder / "rows")

    once(run.own, convert)


def read(run: Run) -> Iterator[Batch]:
    """A torch DataLoader, decoding in the collate."""
    rows = datasets.load_from_disk(run.own / "rows")

    def collate(samples: list[dict[str, Any]]) -> Batch:
        if run.has_arrays:
            return stacked((raw(sample["payload"]), json.loads(sample["json"])) for sample in samples)
        return padded(decoded(run, sample["payload"], sample["json"]) for sample in samples)

    yield from torch.utils.data.DataLoader(
        rows, batch_size=BATCH, shuffle=True, num_workers=run.num_workers, collate_fn=collate
    )
