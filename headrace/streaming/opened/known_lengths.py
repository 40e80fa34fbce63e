"""Lengths of the samples of all streams, for the order: from the indexes, and counted once for each set of shards.

The counts (`format.length_census`) come from the manifests if these have them (`stored_lengths`). They are kept in
the cache folder, in `lengths/`, so that all ranks of a host, all epochs and all later runs read them once. They follow
from the data and from crop and resampling alone, so all hosts of a job find the same.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FormatError
from headrace.format.manifests.length_census import LengthCensus, count_lengths
from headrace.streaming.cache.kept_arrays import Table, changed_lengths, kept, kept_path
from headrace.streaming.opened.reading import StreamReaders
from headrace.streaming.opened.stored_lengths import stored_census
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.settings import SampleSettings

_log = logging.getLogger(__name__)

_VERSION = 1
_FOLDER = "lengths"
_SHARDS_AT_ONCE = 1024
_SAMPLES_AT_ONCE = 1 << 20


class OpenReaders(Protocol):
    """The opened streams, of which each process makes its own `StreamReaders`."""

    @property
    def reading(self) -> StreamReaders:
        """The streams as this process reads them."""


@dataclass(frozen=True, slots=True)
class IndexLengths:
    """Lengths of samples after crop and resampling (`order.lengths.KnownLengths`).

    Attributes:
        streams: the opened streams.
        samples: crop and resampling.
    """

    streams: OpenReaders
    samples: SampleSettings

    def __call__(self, rows: Rows) -> NDArray[np.int64]:
        """Frames of each row's sample, int64 (n,). Raises `ConfigError` if an index does not know one."""
        return self.streams.reading.lengths(rows, self.samples)

    def census(self, stream: int) -> LengthCensus:
        """Counts of samples by length for each shard of a stream.

        If it is not kept yet, it comes from the manifests, or from all indexes.

        Raises:
            ConfigError: an index does not know a length.
            StorageError: an index cannot be read.
        """
        reading = self.streams.reading
        return reading.census((stream, _crop(self.samples)), lambda: _counted(reading, stream, self))

    def changed(self, stream: int, shard: int) -> FormatError:
        """The error for a shard whose index has other lengths than the census."""
        reading = self.streams.reading
        access = reading.readers[stream].primary
        shown = f"{access.shards.storage.uri}/{access.name(shard)}"
        return changed_lengths(shown, _path(reading, stream, self.samples))


def _crop(samples: SampleSettings) -> tuple[float | None, ...]:
    """The settings that lengths depend on."""
    return samples.crop_frames, samples.crop_seconds, samples.sample_rate_hz


def _path(reading: StreamReaders, stream: int, samples: SampleSettings) -> Path:
    """Path of the kept census of a stream."""
    shards = reading.readers[stream].primary.shards
    follows_from = (shards.identity.fingerprint, shards.lengths, shards.identity.split, *_crop(samples))
    return kept_path(reading.cache_folders[stream], _FOLDER, _VERSION, *follows_from)


def _counted(reading: StreamReaders, stream: int, lengths: IndexLengths) -> LengthCensus:
    """The census of a stream, from its file or made and kept."""
    shards = reading.readers[stream].primary.shards
    sizes = shards.shards.num_samples

    def parsed(table: Table) -> LengthCensus | None:
        arrays, metadata = table
        census = LengthCensus(int(metadata["first_cell"]), arrays["counts"], arrays["longest"])
        return census if census.is_of(sizes) else None

    def made() -> Table:
        census = stored_census(shards, lengths.samples)
        if census is None:
            _log.info("%s: counting the lengths of %d samples once", shards.identity.uri, shards.num_samples)
            census = count_lengths(_parts(sizes, stream, lengths))
        return {"counts": census.counts, "longest": census.longest}, {"first_cell": str(census.first_cell)}

    return kept(_path(reading, stream, lengths.samples), parsed, made)


def _parts(
    sizes: NDArray[np.integer], stream: int, lengths: IndexLengths
) -> Iterator[tuple[NDArray[np.integer], NDArray[np.int64]]]:
    """Sizes and lengths of consecutive shards, of a million samples at a time."""
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    first = 0
    while first < len(sizes):
        fitting = int(np.searchsorted(starts, starts[first] + _SAMPLES_AT_ONCE, side="right")) - 1
        stop = min(max(fitting, first + 1), first + _SHARDS_AT_ONCE, len(sizes))
        samples = np.arange(starts[first], starts[stop])
        yield sizes[first:stop], lengths(Rows(np.full(len(samples), stream, np.int32), samples))
        first = stop
