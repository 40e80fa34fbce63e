"""Headrace builds shards for training from audio files, and streams them into training jobs.

This package is the library that training jobs import; the Dagster assets are built on it. It never imports Dagster.
The public names are loaded on first use, so that importing the package imports neither torch nor a decoder.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.plain.loader import webdataset_loader
    from headrace.streaming.batches.stacking import collate
    from headrace.streaming.dataset import StreamingDataset
    from headrace.streaming.loader import StreamingDataLoader
    from headrace.streaming.order.spec import FrameBudget, LengthBuckets
    from headrace.streaming.simulated.simulation import Cluster
    from headrace.streaming.stream import Stream
    from headrace.streaming.world import World

__all__ = [
    "Cluster",
    "FrameBudget",
    "LengthBuckets",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
    "World",
    "collate",
    "webdataset_loader",
]

_HOMES = {
    "Cluster": "headrace.streaming.simulated.simulation",
    "FrameBudget": "headrace.streaming.order.spec",
    "LengthBuckets": "headrace.streaming.order.spec",
    "Stream": "headrace.streaming.stream",
    "StreamingDataLoader": "headrace.streaming.loader",
    "StreamingDataset": "headrace.streaming.dataset",
    "World": "headrace.streaming.world",
    "collate": "headrace.streaming.batches.stacking",
    "webdataset_loader": "headrace.plain.loader",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
