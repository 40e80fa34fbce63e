"""MosaicML streaming: MDS shards, StreamingDataset and StreamingDataLoader, local only."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import transformers.tokenization_utils_base  # noqa: F401 - asks whether torchvision is there, so before the stand-in

from benchmarks.peers.batches import collated_rows, decode
from benchmarks.peers.clips import BATCH, DOCUMENTED, LATENT_SHAPE, SEED, Batch, Run, members, once, tars

# It imports torchvision for its picture data sets, and torchvision would bring a torch of its own: an empty stand-in.
for _name in ("", ".datasets", ".transforms", ".transforms.functional"):
    sys.modules[f"torchvision{_name}"] = ModuleType(f"torchvision{_name}")
sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402
from streaming.base.util import clean_stale_shared_memory  # noqa: E402


def prepare(run: Run) -> None:
    """Payloads as they are, or arrays of a fixed shape; as many samples a shard."""
    shape = ",".join(map(str, LATENT_SHAPE))
    columns = {"payload": f"ndarray:float16:{shape}" if run.has_arrays else "bytes", "json": "json"}

    def convert(folder: Path) -> None:
        urls = tars(run)
        with MDSWriter(out=str(folder), columns=columns, size_limit=Path(urls[0]).stat().st_size) as writer:
            for tar in urls:
                for _, payload, text in members(tar, run.kind):
                    writer.write({"payload": stored(payload), "json": json.loads(text)})

    def stored(payload: bytes) -> Any:  # noqa: ANN401
        return decode(replace(run, form=DOCUMENTED), payload).numpy() if run.has_arrays else payload

    once(run.own, convert)
    clean_stale_shared_memory()


def read(run: Run) -> Iterator[Batch]:
    """Decoded in the collate; arrays come whole."""
    rows = StreamingDataset(local=str(run.own), shuffle=True, batch_size=BATCH, shuffle_seed=SEED)

    def collate(samples: list[dict[str, Any]]) -> Batch:
        return collated_rows(run, samples)

    yield from StreamingDataLoader(rows, batch_size=BATCH, num_workers=run.num_workers, collate_fn=collate)
