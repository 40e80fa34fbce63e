"""The lengths of a stream's samples as the manifests of its snapshot have them: no index is read.

A manifest counts whole samples at their own rate. The counts of cropped samples follow from these. Those of a view, of
resampled audio, and of a crop in seconds where rates differ do not: then `known_lengths` counts the samples itself.
"""

import logging

import numpy as np

from headrace.errors import StorageError, StoreUnavailableError
from headrace.format.manifests.length_census import LengthCensus, joined_census
from headrace.format.manifests.manifests import bucket_of, read_lengths, split_of
from headrace.format.manifests.stored_census import StoredCensus
from headrace.format.snapshots.snapshots import Snapshot, read_snapshot
from headrace.stores.concurrent_requests import map_on_threads
from headrace.streaming.samples.crop import frames_kept
from headrace.streaming.settings import SampleSettings
from headrace.streaming.shards.indexed_tars import WrittenIndexes
from headrace.streaming.shards.shard_set import ShardSet

_log = logging.getLogger(__name__)


def stored_census(shards: ShardSet, samples: SampleSettings) -> LengthCensus | None:
    """Counts of samples by length for each shard, after crop and resampling, from the manifests.

    Args:
        shards: the shards of a stream.
        samples: crop and resampling.

    Returns:
        None if the counts do not follow from the manifests: the samples then have to be counted.

    Raises:
        StoreUnavailableError: the store does not answer.
    """
    data = shards.identity
    has_manifests = data.snapshot is not None and not isinstance(shards.load_index, WrittenIndexes)
    if not has_manifests or data.view is not None or data.windows is not None or len(shards) == 0:
        return None
    try:
        snapshot = read_snapshot(shards.storage, data.snapshot).snapshot
        found = _each_partition(shards, snapshot, samples)
        counts = [one for one in found if one is not None]
        census = joined_census(counts) if len(counts) == len(found) else None
    except StoreUnavailableError:
        raise
    except (StorageError, ValueError) as error:  # removed, forbidden, or damaged (`FormatError`)
        _log.warning("%s: the manifests do not say how long the samples are (%s)", data.uri, error)
        return None
    return census if census is not None and census.is_of(shards.shards.num_samples) else None


def _each_partition(shards: ShardSet, snapshot: Snapshot, samples: SampleSettings) -> list[LengthCensus | None]:
    """The counts of each partition that has shards, in the order of the table of shards."""
    split = shards.identity.split
    names = [name for name, known in snapshot.partitions.items() if known.num_shards]
    names = [name for name in names if split in {None, split_of(name)}]
    names.sort(key=lambda name: (split_of(name), bucket_of(name)))

    def read(name: str) -> LengthCensus | None:
        known = snapshot.partitions[name]
        stored = read_lengths(shards.storage, name, known.number, known.digest)
        return _after_crop(stored, samples, is_audio=not snapshot.origin)

    return map_on_threads(read, names, "lengths")


def _after_crop(stored: StoredCensus | None, samples: SampleSettings, *, is_audio: bool) -> LengthCensus | None:
    """The counts of a partition after crop and resampling; None if they do not follow from the stored ones."""
    if stored is None or (is_audio and samples.sample_rate_hz not in {None, stored.rate_hz}):
        return None
    if samples.crop_seconds is not None and not stored.rate_hz:
        return None
    census = stored.census
    longest = int(census.longest.max())
    (kept,) = frames_kept(samples, np.array([longest]), np.array([stored.rate_hz])).tolist()
    return census if kept == longest else census.cropped(kept)
