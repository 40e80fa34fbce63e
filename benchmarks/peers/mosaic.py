"""MosaicML streaming: MDS shards, StreamingDataset and StreamingDataLoader, local only."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import transformers.tokenization_utils_base  # noqa: F401 - asks whether torchvision is there, so before the stand-in

from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, SEED, Batch, converted, members, once, tars

# It imports torchvision for its picture data sets, and torchvision would bring a torch of its own: an empty stand-in.
for _name in ("", ".datasets", ".transforms", ".transforms.functional"):
    sys.modules[f"torchvision{_name}"] = ModuleType(f"torchvision{_name}")
sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402
from streaming.base.util import clean_stale_shared_memory  # noqa: E402


def prepare(corpus: Path, kind: str) -> None:
    """The payloads and the JSON as they are, as many samples a shard."""

    def convert(folder: Path) -> None:
        columns, urls = {"payload": "bytes", "json": "json"}, tars(corpus, kind)
        with MDSWriter(out=str(folder), columns=columns, size_limit=Path(urls[0]).stat().st_size) as writer:
            for tar in urls:
                for _, payload, text in members(tar, kind):
                    writer.write({"payload": payload, "json": json.loads(text)})

    once(converted(corpus, "mosaic", kind), convert)
    clean_stale_shared_memory()


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """Decoded in the collate."""
    folder = converted(corpus, "mosaic", kind)
    rows = StreamingDataset(local=str(folder), shuffle=True, batch_size=BATCH, shuffle_seed=SEED)

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return padded(decoded(kind, sample["payload"], sample["json"]) for sample in samples)

    yield from StreamingDataLoader(rows, batch_size=BATCH, num_workers=num_workers, collate_fn=collate)
