"""Megatron-Energon: our tars prepared by its command, decoded by a cooker."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from megatron.energon import Cooker, DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, stateless

from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, FIELD, SHUFFLE_BUFFER, Batch, converted, once, tars

PREPARE = "prepare --non-interactive --no-progress --split-ratio 1,0,0 --sample-type CrudeWebdataset --num-workers 1"


def prepare(corpus: Path, kind: str) -> None:
    """Its index beside hard links of our tars."""

    def index(folder: Path) -> None:
        for tar in map(Path, tars(corpus, kind)):
            os.link(tar, folder / tar.name)
        command = Path(sys.executable).with_name("energon")
        subprocess.run([command, *PREPARE.split(), folder], check=True, capture_output=True)

    once(converted(corpus, "energon", kind), index)


@stateless
def cook(sample: dict[str, Any]) -> dict[str, Any]:
    """Payload and JSON, decoded, with the keys that Energon asks for."""
    kind = next(kind for kind, field in FIELD.items() if field in sample)
    own = {name: value for name, value in sample.items() if name.startswith("__")}
    return own | {"row": decoded(kind, sample[FIELD[kind]], sample["json"])}


class Batches(DefaultTaskEncoder):
    """Cooked samples to padded batches, nothing else."""

    decoder = None
    cookers = (Cooker(cook),)

    @stateless
    def encode_sample(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Cooked already."""
        return sample

    @stateless
    def batch(self, samples: list[dict[str, Any]]) -> Batch:
        """Padded."""
        return padded(sample["row"] for sample in samples)

    @stateless
    def encode_batch(self, batch: Batch) -> Batch:
        """Made already."""
        return batch


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """One pass over its train split."""
    batches = get_train_dataset(
        converted(corpus, "energon", kind),
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=num_workers),
        batch_size=BATCH,
        shuffle_buffer_size=SHUFFLE_BUFFER,
        max_samples_per_sequence=None,
        task_encoder=Batches(),
        repeat=False,
    )
    yield from get_loader(batches)
