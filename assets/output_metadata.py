"""Numbers of the codes, and pictures of the vectors, of the first samples of a latent shard, for asset metadata."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import numpy as np

from headrace.format.indexes.index import ShardIndex
from headrace.output_kinds import OutputKind
from headrace.stores.storage import Storage
from headrace.verification.excerpts import read_latents
from headrace_dagster.assets.partition_pictures import vectors

_MOST_SAMPLES, _MOST_FRAMES = 100, 3000


def outputs_metadata(storage: Storage, index: ShardIndex) -> dict[str, Any]:
    """Number of codes in use, and a picture of the vectors; empty for encoders of frames.

    Raises:
        SampleError: the shard is damaged or missing.
    """
    found: dict[str, Any] = {}
    for number, output in enumerate(index.outputs):
        if output.kind is OutputKind.FRAMES:
            continue
        samples = (read_latents(storage, index, i, _MOST_FRAMES, number) for i in range(min(len(index), _MOST_SAMPLES)))
        if not (held := [values for values in samples if values is not None]):
            continue
        drawn = _codes(held) if output.kind is OutputKind.CODES else _picture(held)
        found |= {f"{output.name}_{name}": value for name, value in drawn.items()}
    return found


def _codes(samples: Sequence[np.ndarray[Any, Any]]) -> dict[str, int | float]:
    """Distinct codes of the first codebook, and the share of the most frequent one: 1 for an encoder of one code."""
    _, counts = np.unique(np.concatenate([values[:, 0] for values in samples]), return_counts=True)
    return {"distinct": len(counts), "most_frequent_share": round(int(counts.max()) / int(counts.sum()), 4)}


def _picture(samples: Sequence[np.ndarray[Any, Any]]) -> dict[str, dg.MetadataValue[Any]]:
    """The first vector of each sample."""
    return {"picture": dg.MetadataValue.md(vectors(np.stack([values[0] for values in samples])))}
