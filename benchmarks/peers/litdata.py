"""LitData: `optimize` into its chunks, then its StreamingDataset and StreamingDataLoader."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import litdata

from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, PER_SHARD, SEED, Batch, converted, members, once, tars


def prepare(corpus: Path, kind: str) -> None:
    """The payloads and the JSON as they are, as many samples a chunk."""

    def rows(tar: str) -> Iterator[dict[str, Any]]:
        for _, payload, text in members(tar, kind):
            yield {"payload": payload, "json": text.decode()}

    def convert(folder: Path) -> None:
        litdata.optimize(
            fn=rows,
            inputs=tars(corpus, kind),
            output_dir=str(folder),
            chunk_size=PER_SHARD,
            num_workers=1,
            start_method="fork",  # `rows` is no module's function
            verbose=False,
        )

    once(converted(corpus, "litdata", kind), convert)


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """Decoded in the collate."""
    rows = litdata.StreamingDataset(str(converted(corpus, "litdata", kind)), shuffle=True, drop_last=False, seed=SEED)

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return padded(decoded(kind, sample["payload"], sample["json"]) for sample in samples)

    yield from litdata.StreamingDataLoader(rows, batch_size=BATCH, num_workers=num_workers, collate_fn=collate)
