"""Megatron-Energon: our tars prepared by its command, decoded by a cooker."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from megatron.energon import Cooker, DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, stateless

from benchmarks.peers.batches import collated, decoded
from benchmarks.peers.clips import BATCH, SHUFFLE_BUFFER, Batch, Run, once, tars_for

PREPARE = "prepare --non-interactive --no-progress --split-ratio 1,0,0 --sample-type CrudeWebdataset --num-workers 1"


def prepare(run: Run) -> None:
    """Its index beside hard links of our tars."""

    def index(folder: Path) -> None:
        for tar in map(Path, tars_for(run)):
            os.link(tar, folder / tar.name)
        command = Path(sys.executable).with_name("energon")
        subprocess.run([command, *PREPARE.split(), folder], check=True, capture_output=True)

    once(run.own, index)


class Batches(DefaultTaskEncoder):
    """Cooked samples to padded batches, nothing else."""

    decoder = None

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self.cookers = (Cooker(self._cook),)

    @stateless
    def _cook(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Payload and JSON, decoded, with the keys that Energon asks for."""
        own = {name: value for name, value in sample.items() if name.startswith("__")}
        return own | {"row": decoded(self._run, sample[self._run.field], sample["json"])}

    @stateless
    def encode_sample(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Cooked already."""
        return sample

    @stateless
    def batch(self, samples: list[dict[str, Any]]) -> Batch:
        """Padded."""
        return collated(self._run, (sample["row"] for sample in samples))

    @stateless
    def encode_batch(self, batch: Batch) -> Batch:
        """Made already."""
        return batch


def read(run: Run) -> Iterator[Batch]:
    """One pass over its train split."""
    batches = get_train_dataset(
        run.own,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=run.num_workers),
        batch_size=BATCH,
        shuffle_buffer_size=SHUFFLE_BUFFER,
        max_samples_per_sequence=None,
        task_encoder=Batches(run),
        repeat=False,
    )
    yield from get_loader(batches)
