"""NVIDIA DALI on the CPU: readers.webdataset, decoders.audio, pad; copied out, since DALI uses its buffers again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from benchmarks.peers.clips import BATCH, SHUFFLE_BUFFER, Batch, Run, once, tars_for


def prepare(run: Run) -> None:
    """In its best form an index of each tar, by its own tool; without one it reads all tars at the start."""

    def index(folder: Path) -> None:
        command = Path(sys.executable).with_name("wds2idx")
        for url in tars_for(run):
            subprocess.run([command, url, folder / f"{Path(url).stem}.idx"], check=True, capture_output=True)

    if run.is_best:
        once(_indexes(run), index)


def _indexes(run: Run) -> Path:
    return run.corpus / f"dali-{run.kind}-index"


def read(run: Run) -> Iterator[Batch]:
    """In numpy: its environment has no torch."""
    urls = tars_for(run)
    indexes = {"index_paths": [str(_indexes(run) / f"{Path(url).stem}.idx") for url in urls]} if run.is_best else {}

    @pipeline_def(batch_size=BATCH, num_threads=run.num_workers, device_id=None, prefetch_queue_depth=2)
    def clips() -> tuple[Any, Any]:
        audio, text = fn.readers.webdataset(
            paths=urls, ext=["flac", "json"], random_shuffle=True, initial_fill=SHUFFLE_BUFFER, name="reader",
            missing_component_behavior="error", **indexes,
        )  # fmt: skip
        samples, _ = fn.decoders.audio(audio, dtype=types.FLOAT, downmix=True)
        return fn.pad(samples, fill_value=0), text

    pipeline = clips()
    pipeline.build()
    left = pipeline.epoch_size("reader")
    while left > 0:
        samples, text = pipeline.run()
        count = min(BATCH, left)  # it fills the last batch with the next epoch's
        left -= count
        metadata = [json.loads(bytes(np.array(text[row]))) for row in range(count)]
        yield np.array(samples.as_tensor())[:count], metadata
