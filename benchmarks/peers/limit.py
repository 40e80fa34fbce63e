"""The limit: the fastest bit-exact decoder on bytes in memory, or a plain copy of latents; no batch is built."""

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.peers.clips import BATCH, FIELD, Batch, Run, tars
from headrace.audio import decode_flac_into, flac_info
from headrace.format.indexes.index_files import parse_index
from headrace.format.tensors.pth import latent_facts

_local = threading.local()


def prepare(run: Run) -> None:
    """Read all payloads."""
    _work(run)


def read(run: Run) -> Iterator[Batch]:
    """Decode or copy every sample into the same array."""
    yield from on_threads(payloads(run), _work(run), run.num_workers)


@functools.cache
def _work(run: Run) -> Callable[[bytes], object]:
    first = payloads(run)[0]
    return _decoder(first) if run.kind == "audio" else _copier(first)


@functools.cache
def payloads(run: Run) -> list[bytes]:
    """FLAC or `.pth` of every sample."""
    found: list[bytes] = []
    for path in map(Path, tars(run)):
        index, data = parse_index(path.with_suffix(".idx").read_bytes(), path.name), path.read_bytes()
        spans = (index.range_of(i, FIELD[run.kind]) for i in range(len(index)))
        found += [data[span[0] : span[1]] for span in spans if span]
    return found


def on_threads(blobs: list[bytes], work: Callable[[bytes], object], num_threads: int) -> Iterator[Batch]:
    """`work` on all, batch by batch."""

    def batch(start: int) -> Batch:
        part = blobs[start : start + BATCH]
        for blob in part:
            work(blob)
        return None, part

    with ThreadPoolExecutor(num_threads) as pool:
        yield from pool.map(batch, range(0, len(blobs), BATCH))


def _decoder(first: bytes) -> Callable[[bytes], object]:
    num_frames = flac_info(first).num_frames
    return lambda blob: decode_flac_into(blob, _array((1, num_frames), np.float32))


def _copier(first: bytes) -> Callable[[bytes], object]:
    facts = latent_facts(first)
    assert facts is not None
    assert facts.tensor is not None
    start, stop, *shape = facts.tensor.place
    dtype = np.dtype(facts.tensor.dtype)
    count = (stop - start) // dtype.itemsize
    return lambda blob: np.copyto(_array(tuple(shape), dtype), np.frombuffer(blob, dtype, count, start).reshape(shape))


def _array(shape: tuple[int, ...], dtype: type | np.dtype) -> np.ndarray:
    if not hasattr(_local, "array"):
        _local.array = np.empty(shape, dtype)
    return _local.array
