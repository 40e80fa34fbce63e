"""What a report shows, collected from an output: numbers of the catalog, growth over snapshots, a few samples.

Owns what is read and how little of it: shards are drawn by a hash of their names, so a large data set costs no more
than a small one and the same snapshot shows the same samples. It draws no picture.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from headrace.audit import read_index
from headrace.catalog_partitions import PARTITION, with_partitions
from headrace.errors import HeadraceError
from headrace.excerpts import read_audio, read_latents
from headrace.manifests import split_of
from headrace.metadata_columns import metadata_columns
from headrace.plan import Layout
from headrace.snapshots import NumberedSnapshot, ShardTable, read_snapshot, read_table, snapshot_numbers
from headrace.storage import Storage

Array = np.ndarray[Any, Any]

_CATEGORY_NAMES = ("category", "class", "label", "genre", "instrument", "language", "speaker")
_MOST_CATEGORIES = 30
_MOST_SNAPSHOTS = 60
_LEVEL_SHARDS, _LEVELS_PER_SHARD = 8, 8
_SECONDS_PER_HOUR = 3600.0
_QUIETEST_DB = -100.0
_FULL_SCALE = 1 - 2**-15  # the highest value of 16 bits


@dataclass(frozen=True, slots=True)
class Clip:
    """One sample of the gallery.

    Attributes:
        key: its key.
        split: the split that it is in.
        samples: float32 (channels, frames) in [-1, 1].
        sample_rate_hz: frames per second.
        latents: by name, (T, D).
    """

    key: str
    split: str
    samples: Array
    sample_rate_hz: int
    latents: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that the page shows beside the counts.

    Attributes:
        durations: seconds of every recording, at most 100,000 of them.
        levels_db: RMS level of samples drawn, dB below full scale.
        num_clipped: how many of these are cut off at full scale.
        category: name of the metadata column that divides `hours`; empty for none.
        hours: split → category → hours.
        growth: snapshot numbers and the hours they held, oldest first.
        clips: the gallery.
        unreadable: why samples drawn for the gallery or the levels cannot be read, one text each.
        is_mixed: whether samples may differ in channels, so that they cannot share a batch.
        rejected: `path`, `code`, `reason` of the first refused files.
    """

    durations: Sequence[float] = ()
    levels_db: Sequence[float] = ()
    num_clipped: int = 0
    category: str = ""
    hours: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    growth: Sequence[tuple[int, float]] = ()
    clips: Sequence[Clip] = ()
    unreadable: Sequence[str] = ()
    is_mixed: bool = False
    rejected: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read: catalog tables, and the shard folders; `num_channels` of all samples, None for their sources'."""

    recordings: pl.DataFrame
    rejected: pl.DataFrame
    layout: Layout
    group_by: str | None
    audio: Storage
    latents: Mapping[str, Storage]
    num_channels: int | None = None


def collect(place: Place, num_clips: int = 6, num_rejected: int = 100) -> Contents:
    """Read what the page shows. A sample that cannot be read is left out and said."""
    snapshot = read_snapshot(place.audio)
    table = read_table(place.audio, snapshot.snapshot)
    shards = _drawn(table, _LEVEL_SHARDS)
    category = category_column(place.recordings)
    faults: list[str] = []
    drawn = (samples for name in shards for _, samples, _ in _samples(place.audio, name, faults))
    levels = [(_level_db(samples), is_clipped(samples)) for samples in drawn]
    clips = list(_clips(place, shards, num_clips, faults))
    return Contents(
        durations=place.recordings["duration_seconds"].head(100_000).to_list(),
        levels_db=[level for level, _ in levels],
        num_clipped=sum(clipped for _, clipped in levels),
        category=category,
        hours=_hours(place, category),
        growth=_growth(place.audio, snapshot),
        clips=clips,
        unreadable=list(dict.fromkeys(faults)),
        is_mixed=place.num_channels is None and place.recordings["num_channels"].n_unique() > 1,
        rejected=place.rejected.select("path", "code", "reason").head(num_rejected).rows(),
    )


def category_column(recordings: pl.DataFrame) -> str:
    """The user's column to divide by: a text column with few values, best one whose name says so; empty for none."""
    stored = metadata_columns(recordings)
    fitting = [
        user
        for column, user in stored.items()
        if recordings.schema[column] == pl.String and 1 < recordings[column].n_unique() <= _MOST_CATEGORIES
    ]
    named = [name for name in _CATEGORY_NAMES if name in fitting]
    return (named or sorted(fitting) or [""])[0]


def _hours(place: Place, category: str) -> dict[str, dict[str, float]]:
    if place.recordings.is_empty():
        return {}
    stored = {user: column for column, user in metadata_columns(place.recordings).items()}
    name = pl.col(stored[category]).fill_null("(none)") if category else pl.lit("all")
    rows = (
        with_partitions(place.recordings, place.layout, place.group_by)
        .select(pl.col(PARTITION).map_elements(split_of, pl.String), name.alias("name"), "duration_seconds")
        .group_by(PARTITION, "name")
        .agg(pl.col("duration_seconds").sum() / _SECONDS_PER_HOUR)
        .sort(PARTITION, "name")
    )
    hours: dict[str, dict[str, float]] = {split: {} for split in place.layout.splits}
    for split, value, found in rows.iter_rows():
        hours[split][value] = found
    return hours


def _growth(audio: Storage, newest: NumberedSnapshot) -> list[tuple[int, float]]:
    numbers = snapshot_numbers(audio)[-_MOST_SNAPSHOTS:]
    found = [newest if number == newest.number else read_snapshot(audio, number) for number in numbers]
    hours = [sum(split.seconds for split in one.snapshot.splits.values()) / _SECONDS_PER_HOUR for one in found]
    return list(zip(numbers, hours, strict=True))


def _drawn(table: ShardTable, count: int) -> list[str]:
    """Some shards, by a hash of their names."""
    return sorted(table.names(), key=lambda name: hashlib.sha256(name.encode()).digest())[:count]


def _samples(audio: Storage, shard: str, faults: list[str]) -> Iterator[tuple[str, Array, int]]:
    """The first samples of a shard, decoded; `faults` takes what cannot be read."""
    with _noted(faults):
        index = read_index(audio, shard)
        for i in range(min(_LEVELS_PER_SHARD, len(index))):
            with _noted(faults):
                if (samples := read_audio(audio, index, i)) is not None:
                    yield index.key(i), samples, int(index.sample_rate_hz[i])


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """What cannot be read goes to `faults`, and the page is made all the same."""
    try:
        yield
    except HeadraceError as error:
        faults.append(str(error))


def _level_db(samples: Array) -> float:
    power = float(np.mean(np.square(samples, dtype=np.float64))) if samples.size else 0.0
    return max(_QUIETEST_DB, 10 * float(np.log10(power))) if power > 0 else _QUIETEST_DB


def is_clipped(samples: Array) -> bool:
    """Whether a channel of float (channels, frames) in [-1, 1] stands at full scale for three frames or more.

    A wave that only just reaches it stays there for one or two.
    """
    is_full = np.abs(samples) >= _FULL_SCALE
    if not is_full.any():
        return False
    runs = is_full[:, 2:] & is_full[:, 1:-1] & is_full[:, :-2]
    return bool(runs.any())


def _clips(place: Place, shards: Sequence[str], count: int, faults: list[str]) -> Iterator[Clip]:
    """One sample of each shard drawn, until there are enough, then second ones."""
    readers = [_samples(place.audio, name, faults) for name in shards]
    found = 0
    for _ in range(_LEVELS_PER_SHARD):
        for name, reader in zip(shards, readers, strict=True):
            sample = next(reader, None)
            if sample is None or found == count:
                continue
            key, samples, rate_hz = sample
            found += 1
            yield Clip(key, name.split("_")[0], samples, rate_hz, _latents_of(place, name, key, faults))


def _latents_of(place: Place, shard: str, key: str, faults: list[str]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, store in place.latents.items():
        with _noted(faults):
            if (hidden := _hidden(store, shard, key)) is not None:
                found[name] = hidden
    return found


def _hidden(store: Storage, audio_shard: str, key: str) -> Array | None:
    """The latents of one sample, found by the number that latent shards share with their audio."""
    place = "latent_" + audio_shard.rpartition("-")[0] + "-"
    table = read_table(store, read_snapshot(store).snapshot)
    name = next((name for name in table.names() if name.startswith(place)), None)
    if name is None:
        return None
    index = read_index(store, name)
    keys = index.keys()
    return read_latents(store, index, keys.index(key)) if key in keys else None
