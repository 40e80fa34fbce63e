"""Holds what one process needs to read the streams of a dataset: open shards, caches and counters.

Files, locks and clients of stores cannot be pickled, so they are here and not in the dataset. Each process makes its
own `StreamReaders` on first use, also after a fork.
"""

import contextlib
import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.manifests.length_census import LengthCensus
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.samples.chosen_fields import ChosenFields
from headrace.streaming.samples.crop import frames_kept
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.settings import FetchSettings, SampleSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.column_reader import ColumnReader
from headrace.streaming.shards.remote import OpenedRemote
from headrace.streaming.stats import Traffic

_PRIVATE = 0o700
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class StreamShards:
    """The shards of one stream, and the cache through which they are read.

    Attributes:
        opened: the shards.
        cache_folder: folder in which shards of stores are kept.
        config: how shards are fetched.
        samples: how samples are cropped.
    """

    opened: OpenedRemote
    cache_folder: Path
    config: FetchSettings
    samples: SampleSettings = SampleSettings()  # noqa: RUF009 - frozen


class StreamReaders:
    """The streams as this process reads them; safe for threads."""

    def __init__(self, sources: Sequence[StreamShards], traffic: Traffic) -> None:
        self.pid = os.getpid()
        self.traffic = traffic
        self._caches = {
            source.cache_folder: ShardCache(source.cache_folder, source.config.cache_limit_bytes) for source in sources
        }
        self.readers = [self._reader(source) for source in sources]
        self.cache_folders = [source.cache_folder for source in sources]
        self._censuses: dict[object, LengthCensus] = {}
        self._samples_of: dict[tuple[str, ...], list[NDArray[np.int64]]] = {}

    @property
    def caches(self) -> Iterator[ShardCache]:
        """Each cache folder once."""
        return iter(self._caches.values())

    def close_idle(self) -> None:
        """Close the files that are kept for later; a reader of such a file keeps it open until it is done."""
        for reader in self.readers:
            for access in (reader.primary, *reader.joined):
                access.close_idle()

    @property
    def is_local(self) -> bool:
        """Whether every shard is read in place, so that nothing is downloaded or unpacked."""
        return all(access.is_local for reader in self.readers for access in (reader.primary, *reader.joined))

    def lengths(self, rows: Rows, config: SampleSettings) -> NDArray[np.int64]:
        """Frames of the sample of each row after crop and resampling, int64 (n,); no row may be padding.

        Raises:
            ConfigError: an index has no length for a sample.
        """
        found = np.empty(len(rows), np.int64)
        for number, reader in enumerate(self.readers):
            chosen = rows.stream_ids == number
            samples = rows.sample_ids[chosen]
            frames = reader.lengths(samples)
            if len(frames) and frames.min() < 0:
                raise _without_length(reader, int(samples[frames < 0][0]))
            if config.crop_seconds is not None or config.sample_rate_hz is not None:
                found[chosen] = _arriving(frames, *reader.rates(samples), config)
            else:
                found[chosen] = frames_kept(config, frames, np.zeros(len(frames)))
        return found

    def rates_hz(self, config: SampleSettings) -> set[float]:
        """The different frames per second of the first sample of each stream, after resampling; without unknown ones.

        Audio has the sample rate, latents alone their own rate.
        """
        found = set()
        for reader in self.readers:
            if reader.primary.shards.num_samples:
                (audio,), (latents,) = (rates.tolist() for rates in reader.rates(np.zeros(1, np.int64)))
                found.add(float((config.sample_rate_hz or audio) if audio else latents))
        return found - {0.0}

    def census(self, key: object, count: Callable[[], LengthCensus]) -> LengthCensus:
        """The counts of a stream's lengths that this process keeps under a key; made at its first use."""
        if key not in self._censuses:
            self._censuses[key] = count()
        return self._censuses[key]

    def samples_of(self, keys: tuple[str, ...]) -> list[NDArray[np.int64]]:
        """Numbers of the samples with these keys, int64, for each stream. Warns of keys that no stream has."""
        if keys not in self._samples_of:
            found = [reader.samples_of(keys) for reader in self.readers]
            if unknown := set(keys).difference(*(there for _, there in found)):
                warnings.warn(
                    f"exclude: no stream has the key {min(unknown)!r}"
                    + (f", and {len(unknown) - 1} more" if len(unknown) > 1 else "")
                    + ": it was removed from this snapshot, or is misspelled",
                    stacklevel=2,
                )
            self._samples_of[keys] = [samples for samples, _ in found]
        return self._samples_of[keys]

    def _reader(self, source: StreamShards) -> StreamReader:
        cache = self._caches[source.cache_folder]
        opened = source.opened
        primary = ShardAccess(opened.primary, source.config, cache, self.traffic)
        others = [ShardAccess(one, source.config, cache, self.traffic) for one in opened.joined]
        joined = [pair for pair in zip(others, opened.joined_outputs, strict=True) if pair[1]]
        measured = list(zip([primary, *others], opened.outputs, strict=True))
        primary.reads_parts = opened.fields is not None
        columns = ColumnReader(opened.columns, primary) if opened.columns else None
        own = frozenset(field.values for field in opened.outputs[0])
        chosen = None if opened.fields is None else ChosenFields(opened.fields, own)
        reader = StreamReader(
            primary,
            joined,
            columns,
            chosen=chosen,
            outputs=opened.own_outputs,
            config=source.samples,
            measured=measured,
        )
        reader.rasters = opened.rasters
        return reader


def _without_length(reader: StreamReader, sample: int) -> ConfigError:
    shards, rows = reader.find(np.array([sample]))
    access, shard = reader.primary, int(shards[0])
    return ConfigError(
        f"{access.shards.storage.uri}/{access.name(shard)}: the index does not know the length of sample "
        f"{access.index(shard).key(int(rows[0]))!r}, and length buckets need all lengths: its header has none or "
        "cannot be read; write it again as FLAC, leave its shard out, or use batching='fixed'"
    )


def _arriving(
    frames: NDArray[np.int64], audio_hz: NDArray[np.int64], latents_hz: NDArray[np.float64], config: SampleSettings
) -> NDArray[np.int64]:
    """Frames after crop and resampling by soxr, from stored frames."""
    frames = frames_kept(config, frames, np.where(audio_hz > 0, audio_hz, latents_hz))
    if config.sample_rate_hz is not None:
        arriving = (2 * frames * config.sample_rate_hz + audio_hz) // np.maximum(2 * audio_hz, 1)
        frames = np.where(audio_hz > 0, arriving, frames)
    return frames


def default_cache_folder() -> Path:
    """The cache folder if no `local` is given: one below the temporary folder, for all data sets of a user.

    The names of its files come from contents or origins, so data sets do not collide, and later runs find their shards.
    Other users can guess the name of the folder, so it is created here with rights for this user only.

    Raises:
        ConfigError: the folder belongs to another user, who could write other shards into it.
    """
    user = hashlib.sha256(str(os.getuid()).encode()).hexdigest()[:8]
    folder = Path(tempfile.gettempdir()) / f"headrace-{user}"
    with contextlib.suppress(OSError):  # if the folder cannot be made, a warning follows when it is needed
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid():
            raise ConfigError(
                f"{folder}: the default cache folder belongs to another user (number {found.st_uid}), who could put "
                "other shards there: pass local=… with your own folder, or have this one removed"
            )
        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & _OTHERS:
            folder.chmod(_PRIVATE)
    return folder
