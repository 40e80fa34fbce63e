"""LitData: `optimize` into its chunks, then its StreamingDataset and StreamingDataLoader."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import litdata
import torch

from benchmarks.peers.batches import collated_rows, decode
from benchmarks.peers.clips import BATCH, DOCUMENTED, SEED, Batch, Run, members, once, tars


def prepare(run: Run) -> None:
    """Payloads as they are, or tensors; as many samples a chunk."""

    def rows(tar: str) -> Iterator[dict[str, Any]]:
        for _, payload, text in members(tar, run.kind):
            yield {"payload": tensor(payload) if run.has_arrays else payload, "json": text.decode()}

    def tensor(payload: bytes) -> torch.Tensor:
        return decode(replace(run, form=DOCUMENTED), payload)

    def convert(folder: Path) -> None:
        litdata.optimize(
            fn=rows,
            inputs=tars(run),
            output_dir=str(folder),
            chunk_size=run.per_shard,
            num_workers=1,
            start_method="fork",  # `rows` is no module's function
            verbose=False,
        )

    once(run.own, convert)


def read(run: Run) -> Iterator[Batch]:
    """Decoded in the collate; tensors come whole."""
    rows = litdata.StreamingDataset(str(run.own), shuffle=True, drop_last=False, seed=SEED)

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return collated_rows(run, samples)

    yield from litdata.StreamingDataLoader(rows, batch_size=BATCH, num_workers=run.num_workers, collate_fn=collate)
