"""NVIDIA DALI on the CPU: readers.webdataset, decoders.audio, pad; copied out, since DALI uses its buffers again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from benchmarks.peers.clips import BATCH, SHUFFLE_BUFFER, Batch, tars


def prepare(corpus: Path, kind: str) -> None:
    """Nothing: it reads our tars."""


def read(corpus: Path, kind: str, num_threads: int) -> Iterator[Batch]:
    """In numpy: its environment has no torch."""
    urls = tars(corpus, kind)

    @pipeline_def(batch_size=BATCH, num_threads=num_threads, device_id=None, prefetch_queue_depth=2)
    def clips() -> tuple[Any, Any]:
        audio, text = fn.readers.webdataset(
            paths=urls, ext=["flac", "json"], random_shuffle=True, initial_fill=SHUFFLE_BUFFER, name="reader",
            missing_component_behavior="error",
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
