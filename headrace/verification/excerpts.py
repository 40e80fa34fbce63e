"""Reads the audio or the latents of one sample, or their beginning, as arrays to draw or listen to.

Samples are found by the shard's index, and only as much is read as is asked for. Latents of every stored dtype come as
float32. Training reads through `headrace.streaming`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.audio import decode_into
from headrace.errors import SampleError
from headrace.format.indexes.index import ShardIndex
from headrace.format.tensors.tensors import float32_values, storage_dtype
from headrace.stores.storage import Storage

Floats = np.ndarray[Any, np.dtype[np.float32]]


def read_audio(
    storage: Storage, index: ShardIndex, i: int, most_seconds: float = math.inf, field_name: str = ""
) -> Floats | None:
    """Sample `i` of an audio shard, or its beginning: float32 (channels, frames) in [-1, 1]; None without audio.

    Args:
        storage: the folder of audio shards.
        index: index of the shard.
        i: the sample.
        most_seconds: limit of the length.
        field_name: name of the audio field; empty for the first.

    Raises:
        SampleError: the shard is damaged or missing.
        ConfigError: the shard has no audio field of this name.
    """
    audio = index.audio_of(i, field_name)
    if audio is None:
        return None
    num_frames = int(min(index.num_frames[i], most_seconds * int(index.sample_rate_hz[i])))
    samples = np.empty((audio.num_channels, num_frames), np.float32)
    with _named_failures(storage, index, i):
        (blob,) = storage.read_ranges(index.shard, [audio.span])
        decode_into(blob, samples)
    return samples


def read_latents(
    storage: Storage, index: ShardIndex, i: int, most_frames: float = math.inf, output: int = 0
) -> Floats | None:
    """An output of sample `i` of a latent shard, or its beginning: float32 (T, D); None without a tensor.

    Args:
        storage: the folder of latent shards.
        index: index of the shard.
        i: the sample.
        most_frames: limit of the length.
        output: number of the output.

    Raises:
        SampleError: the shard is cut off or missing.
    """
    tensors = index.row(i).tensors
    if output >= len(tensors) or (place := tensors[output]) is None:
        return None
    start, _, num_latent, width = place
    dtype, num_read = index.outputs[output].dtype, int(min(num_latent, most_frames))
    num_bytes = num_read * width * storage_dtype(dtype).itemsize
    with _named_failures(storage, index, i):
        (blob,) = storage.read_ranges(index.shard, [(start, start + num_bytes)])
        return float32_values(blob, (num_read, width), dtype)


@contextmanager
def _named_failures(storage: Storage, index: ShardIndex, i: int) -> Iterator[None]:
    """Turn errors of reading sample `i` into `SampleError`, with shard, key and what to do."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SampleError(
            f"{storage.uri}/{index.shard}: sample {index.key(i)} cannot be read: {error}. `headrace verify` finds all "
            "damage; remove the tar and its .idx, and build again"
        ) from error
