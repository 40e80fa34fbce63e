"""Downloads, evicts and counts shards on request, for the methods of `StreamingDataset` that MosaicML's has."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.arguments import position
from headrace.streaming.opened.opening import OpenStreams
from headrace.streaming.opened.reading import StreamReaders
from headrace.streaming.run.planner import Planner
from headrace.streaming.samples.stream_reader import StreamReader


def prepare(streams: OpenStreams, shard_id: int, *, is_patient: bool) -> None:
    """Download a shard into the cache; if patient, wait for another process that downloads it."""
    access, shard = streams.shard(shard_id)
    access.fetch(shard)
    if is_patient and access.in_place(shard) is None:
        access.open(shard, list, patient=True)


def evict(streams: OpenStreams, shard_id: int) -> bool:
    """Remove a shard from the cache, unless a process has it open or it is local. Returns whether it is gone."""
    access, shard = streams.shard(shard_id)
    access.close_idle()
    return access.in_place(shard) is None and access.cache.evict(access.cache_name(shard))


def evict_coldest(reading: StreamReaders) -> str | None:
    """Remove the least recently used shard from the cache. Returns its name, or None."""
    reading.close_idle()
    return next((name for cache in reading.caches if (name := cache.evict_coldest())), None)


def taken(
    planner: Planner, epoch: int, readers: Sequence[StreamReader], stream_id: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The samples of an epoch by shard; see `StreamingDataset.resample_streams`.

    Args:
        planner: makes the orders of epochs.
        epoch: number of the epoch.
        readers: the streams.
        stream_id: number of a stream; None for all.

    Raises:
        IndexError: there is no such stream.
    """
    if stream_id is not None and not 0 <= position("stream", stream_id) < len(readers):
        raise IndexError(f"stream {stream_id}: there are {len(readers)}")
    rows = planner.rows(epoch)
    counts, samples, base = [], [], 0
    for number, reader in enumerate(readers):
        chosen = np.sort(rows.sample_ids[rows.stream_ids == number])
        shards, _ = reader.locator.find(chosen)
        if stream_id in (None, number):
            counts.append(np.bincount(shards, minlength=len(reader.primary.shards)).astype(np.int64))
            samples.append(chosen + base)
        base += reader.primary.shards.num_samples if stream_id is None else 0
    return np.concatenate(counts), np.concatenate(samples)
