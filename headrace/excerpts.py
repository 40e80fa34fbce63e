"""One sample's audio or latents from its shard, as arrays to look at.

Owns reading them by the index: no further into a recording of hours than is asked for, and latents of every stored
dtype as float32. How they look is the drawers' business; training reads through `headrace.streaming`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.audio import decode_flac_into
from headrace.errors import SampleError
from headrace.index import ABSENT, ShardIndex, payload
from headrace.storage import Storage
from headrace.streaming.batches.batch import BFLOAT16, storage_dtype, widen_bfloat16

Floats = np.ndarray[Any, np.dtype[np.float32]]


def read_audio(storage: Storage, index: ShardIndex, i: int, most_seconds: float = math.inf) -> Floats | None:
    """Sample `i` of an audio shard, or its beginning: float32 (channels, frames) in [-1, 1]; None without FLAC.

    Raises:
        SampleError: it is damaged or not there.
    """
    span = index.range_of(i, "flac")
    if span is None:
        return None
    num_frames = int(min(index.num_frames[i], most_seconds * int(index.sample_rate_hz[i])))
    samples = np.empty((int(index.num_channels[i]), num_frames), np.float32)
    with _named_failures(storage, index, i), storage.open(index.shard) as file:
        decode_flac_into(payload(file, span), samples, 0, num_frames)
    return samples


def read_latents(storage: Storage, index: ShardIndex, i: int, most_frames: float = math.inf) -> Floats | None:
    """Sample `i` of a latent shard, or its beginning: float32 (T, D); None without a tensor.

    Raises:
        SampleError: the shard is cut off or not there.
    """
    start, _, num_latent, width = (int(value) for value in index.tensors[i])
    if start == ABSENT:
        return None
    dtype, num_read = storage_dtype(index.tensor_dtype), int(min(num_latent, most_frames))
    with _named_failures(storage, index, i), storage.open(index.shard) as file:
        raw = payload(file, (start, start + num_read * width * dtype.itemsize))
        stored = np.frombuffer(raw, dtype).reshape(num_read, width)
    return widen_bfloat16(stored) if index.tensor_dtype == BFLOAT16 else stored.astype(np.float32)


@contextmanager
def _named_failures(storage: Storage, index: ShardIndex, i: int) -> Iterator[None]:
    """Failures to read sample `i`, with the names of its shard and key and the way out."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SampleError(
            f"{storage.uri}/{index.shard}: sample {index.key(i)} cannot be read: {error}. `headrace verify` finds what "
            "else is damaged; remove the tar and its .idx, and build again"
        ) from error
