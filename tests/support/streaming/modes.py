"""Every way to order, mix and batch samples, by name: what properties of the loader are tried on."""

from pathlib import Path
from typing import Any

from headrace import FrameBudget, LengthBuckets, Stream, StreamingDataset

BATCH_MULTIPLE = 48
"""Divides by all the world sizes that orders are tried on."""

_BUDGET = FrameBudget(BATCH_MULTIPLE * 900, batch_multiple=BATCH_MULTIPLE)

ONE_STREAM: dict[str, dict[str, Any]] = {
    "plain": {},
    "shuffled": {"shuffle": True},
    "full": {"shuffle": True, "shuffle_algo": "full"},
    "drop": {"shuffle": True, "last_batch": "drop"},
    "buckets": {"shuffle": True, "batching": LengthBuckets(2)},
    "budget": {"shuffle": True, "batching": _BUDGET},
}
MIXED: dict[str, dict[str, Any]] = {
    "mixed": {"shuffle": True},
    "stratified": {"shuffle": True, "batching_method": "stratified"},
    "per_stream": {"shuffle": True, "batching_method": "per_stream"},
    "device_per_stream": {"shuffle": True, "batching_method": "device_per_stream"},
    "mixed buckets": {"shuffle": True, "batching": LengthBuckets(2)},
    "mixed budget": {"shuffle": True, "batching": _BUDGET},
}
MODES = [*ONE_STREAM, *MIXED]


def open_mode(folder: Path, mode: str, **more: Any) -> StreamingDataset:
    """The training split of an output, or a mixture of both splits, read in a mode."""
    if mode in ONE_STREAM:
        return StreamingDataset(remote=f"{folder}/audio", split="train", **ONE_STREAM[mode] | more)
    streams = [Stream(f"{folder}/audio", split=split, repeat=repeat) for split, repeat in (("train", 2), ("test", 5.5))]
    return StreamingDataset(streams=streams, **MIXED[mode] | more)
