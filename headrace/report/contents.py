"""Collects what a report shows from an output: statistics of the catalog, growth over snapshots, a few samples.

Only a few shards are read, chosen by a hash of their names. So a large data set takes no longer than a small one, and
the same snapshot shows the same samples. `headrace.report.figures` draws the pictures.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from headrace.assemble.latent_rejections import snapshot_rejections
from headrace.errors import HeadraceError
from headrace.format.indexes.audio_fields import AUDIO
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import ManifestRejection
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, read_table, snapshot_numbers
from headrace.output_kinds import LATENT_PREFIX
from headrace.report.catalog_figures import CatalogFigures
from headrace.stores.storage import Storage
from headrace.verification.excerpts import read_audio, read_latents

Array = np.ndarray[Any, Any]

_MOST_SNAPSHOTS = 60
_LEVEL_SHARDS, _LEVELS_PER_SHARD = 8, 8
_SECONDS_PER_HOUR = 3600.0
_QUIETEST_DB = -100.0
_FULL_SCALE = 1 - 2**-15  # the highest value of 16 bits


@dataclass(frozen=True, slots=True)
class GalleryClip:
    """One sample of the gallery.

    Attributes:
        key: the sample's key.
        split: the split of the sample.
        samples: float32 (channels, frames) in [-1, 1].
        sample_rate_hz: frames per second.
        latents: name → latents (T, D).
        stems: name → samples, float32 (channels, frames), of the audio fields after the first; empty for one field.
        field_name: name of the first audio field.
    """

    key: str
    split: str
    samples: Array
    sample_rate_hz: int
    latents: Mapping[str, Array]
    stems: Mapping[str, Array] = field(default_factory=dict)
    field_name: str = "audio"


@dataclass(frozen=True, slots=True)
class ReportContents:
    """Everything that the page shows, except the counts of the snapshots.

    Attributes:
        durations: durations of at most 100,000 recordings, in seconds.
        levels_db: RMS levels of some samples, in dB relative to full scale.
        num_clipped: number of these samples that are clipped.
        category: name of the metadata column by which `hours` is divided; empty without one.
        hours: split → category → hours.
        growth: (snapshot number, hours) pairs, oldest first.
        clips: the samples of the gallery.
        unreadable: error messages about samples that could not be read.
        is_mixed: whether samples may differ in channels, so that they cannot share a batch.
        rejected: `path`, `code`, `reason` of the first rejected files.
        without_latents: name of the latents, key, path, code and reason of the first samples without latents.
        num_without_latents: name of the latents → number of samples without them, if there are any.
    """

    durations: Sequence[float] = ()
    levels_db: Sequence[float] = ()
    num_clipped: int = 0
    category: str = ""
    hours: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    growth: Sequence[tuple[int, float]] = ()
    clips: Sequence[GalleryClip] = ()
    unreadable: Sequence[str] = ()
    is_mixed: bool = False
    rejected: Sequence[tuple[str, str, str]] = ()
    without_latents: Sequence[tuple[str, str, str, str, str]] = ()
    num_without_latents: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """Inputs of a report: figures of the catalog, its table of rejects, and the shard folders.

    `num_channels` is the number of channels of all samples; None if samples keep the channels of their sources.
    """

    catalog: CatalogFigures
    rejected: pl.DataFrame
    audio: Storage
    latents: Mapping[str, Storage]
    num_channels: int | None = None


def collect_contents(inputs: ReportInputs, num_clips: int = 6, num_rejected: int = 100) -> ReportContents:
    """Read what the page shows. A sample that cannot be read is left out and listed in `unreadable`."""
    snapshot = read_snapshot(inputs.audio)
    table = read_table(inputs.audio, snapshot.snapshot)
    shards = _drawn(table, _LEVEL_SHARDS)
    faults: list[str] = []
    drawn = (samples for name in shards for *_, samples in _samples(inputs.audio, name, faults))
    levels = [(_level_db(samples), is_clipped(samples)) for samples in drawn]
    clips = list(_clips(inputs, shards, num_clips, faults))
    refused = {name: _refused(store) for name, store in inputs.latents.items()}
    return ReportContents(
        durations=inputs.catalog.durations,
        levels_db=[level for level, _ in levels],
        num_clipped=sum(clipped for _, clipped in levels),
        category=inputs.catalog.category,
        hours=inputs.catalog.hours,
        growth=_growth(inputs.audio, snapshot),
        clips=clips,
        unreadable=list(dict.fromkeys(faults)),
        is_mixed=inputs.num_channels is None and len(inputs.catalog.num_channels) > 1,
        rejected=inputs.rejected.select("path", "code", "reason").head(num_rejected).rows(),
        without_latents=[
            (name, row.key, row.path, row.code, row.reason) for name, rows in refused.items() for row in rows
        ][:num_rejected],
        num_without_latents={name: len(rows) for name, rows in refused.items() if rows},
    )


def _refused(latents: Storage) -> Sequence[ManifestRejection]:
    return snapshot_rejections(latents, read_snapshot(latents).snapshot.manifests).refused


def _growth(audio: Storage, newest: NumberedSnapshot) -> list[tuple[int, float]]:
    numbers = snapshot_numbers(audio)[-_MOST_SNAPSHOTS:]
    found = [newest if number == newest.number else read_snapshot(audio, number) for number in numbers]
    hours = [sum(split.seconds for split in one.snapshot.splits.values()) / _SECONDS_PER_HOUR for one in found]
    return list(zip(numbers, hours, strict=True))


def _drawn(table: ShardTable, count: int) -> list[str]:
    """Names of some shards, chosen by a hash of their names."""
    return sorted(table.names(), key=lambda name: hashlib.sha256(name.encode()).digest())[:count]


def _samples(audio: Storage, shard: str, faults: list[str]) -> Iterator[tuple[ShardIndex, int, Array]]:
    """The first samples of a shard: index, row, and the first audio field, decoded. Errors are added to `faults`."""
    with _noted(faults):
        index = read_index(audio, shard)
        for i in range(min(_LEVELS_PER_SHARD, len(index))):
            with _noted(faults):
                if (samples := read_audio(audio, index, i)) is not None:
                    yield index, i, samples


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """Add an error to `faults` instead of raising it."""
    try:
        yield
    except HeadraceError as error:
        faults.append(str(error))


def _level_db(samples: Array) -> float:
    power = float(np.mean(np.square(samples, dtype=np.float64))) if samples.size else 0.0
    return max(_QUIETEST_DB, 10 * float(np.log10(power))) if power > 0 else _QUIETEST_DB


def is_clipped(samples: Array) -> bool:
    """Whether a channel of float (channels, frames) in [-1, 1] is at full scale for three frames or more.

    A peak that only just reaches full scale stays there for one or two frames.
    """
    is_full = np.abs(samples) >= _FULL_SCALE
    if not is_full.any():
        return False
    runs = is_full[:, 2:] & is_full[:, 1:-1] & is_full[:, :-2]
    return bool(runs.any())


def _clips(inputs: ReportInputs, shards: Sequence[str], count: int, faults: list[str]) -> Iterator[GalleryClip]:
    """The first sample of each chosen shard, then the second ones, until there are enough."""
    readers = [_samples(inputs.audio, name, faults) for name in shards]
    found = 0
    for _ in range(_LEVELS_PER_SHARD):
        for name, reader in zip(shards, readers, strict=True):
            sample = next(reader, None)
            if sample is None or found == count:
                continue
            index, row, samples = sample
            key, rate_hz = index.key(row), int(index.sample_rate_hz[row])
            found += 1
            latents, stems = _latents_of(inputs, name, key, faults), _stems(inputs.audio, index, row, faults)
            first = next(iter(index.audio_fields), AUDIO)
            yield GalleryClip(key, name.split("_")[0], samples, rate_hz, latents, stems, first)


def _stems(audio: Storage, index: ShardIndex, row: int, faults: list[str]) -> dict[str, Array]:
    """The audio fields of a sample after the first."""
    found: dict[str, Array] = {}
    for name in index.audio_fields[1:]:
        with _noted(faults):
            if (samples := read_audio(audio, index, row, field_name=name)) is not None:
                found[name] = samples
    return found


def _latents_of(inputs: ReportInputs, shard: str, key: str, faults: list[str]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, store in inputs.latents.items():
        with _noted(faults):
            if (hidden := _hidden(store, shard, key)) is not None:
                found[name] = hidden
    return found


def _hidden(store: Storage, audio_shard: str, key: str) -> Array | None:
    """The latents of one sample. A shard of latents has the same number as the shard of its audio."""
    place = LATENT_PREFIX + audio_shard.rpartition("-")[0] + "-"
    table = read_table(store, read_snapshot(store).snapshot)
    name = next((name for name in table.names() if name.startswith(place)), None)
    if name is None:
        return None
    index = read_index(store, name)
    keys = index.keys()
    return read_latents(store, index, keys.index(key)) if key in keys else None
