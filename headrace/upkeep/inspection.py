"""Collects the facts that `headrace inspect` shows: splits, samples, lengths, snapshots, rejections.

The facts of an output come from its snapshots and indexes, those of other tars from `sizes.json` and indexes. No sample
is read; `headrace.cli.tables` prints the facts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from headrace.assemble.latent_rejections import snapshot_rejections
from headrace.errors import HeadraceError, NotFoundError
from headrace.format.beside.column_files import SPECS_KEY, specs_of
from headrace.format.beside.column_table import ColumnSpec
from headrace.format.beside.view_files import read_view
from headrace.format.beside.views import NumberedView
from headrace.format.indexes.index import SHARD_SUFFIXES, ShardIndex
from headrace.format.manifests.manifests import ManifestRejection
from headrace.format.snapshots.snapshots import NumberedSnapshot, Snapshot, SplitTotals, read_table
from headrace.locate import locate
from headrace.locate.outputs import ShardFolder, view_folders
from headrace.locate.shard_list import LocatedShard, shards_of
from headrace.signed_urls import unsigned
from headrace.stores.storage import Storage

_MAX_INDEXES = 2_000  # more would hardly change the numbers
_MAX_REJECTS = 20


@dataclass(frozen=True, slots=True)
class LengthFacts:
    """Lengths and formats of samples, from the indexes.

    Attributes:
        seconds: shortest, median and longest; empty for latents and where lengths are not known.
        frames: shortest, median and longest, in PCM or latent frames; empty where they are not known.
        rates_hz: sample rate → number of samples.
        channels: number of channels → number of samples.
        channels_of: the same for each named audio field; empty without these.
        fields: names of the fields.
        num_indexes: number of indexes that were read.
    """

    seconds: tuple[float, ...] = ()
    frames: tuple[int, ...] = ()
    rates_hz: dict[int, int] = field(default_factory=dict)
    channels: dict[int, int] = field(default_factory=dict)
    channels_of: dict[str, dict[int, int]] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    num_indexes: int = 0


@dataclass(frozen=True, slots=True)
class PartFacts:
    """One shard folder of an output at its newest snapshot.

    Attributes:
        name: `audio`, `latents/<name>`, `columns/<set>` or `.`.
        snapshots: all of its snapshots, ascending.
        splits: totals of the newest snapshot by split.
        lengths: lengths of its samples.
        unnamed: number and bytes of shards that only older snapshots name, or none.
        num_rejected: number of samples without latents, in a folder of latents.
        rejects: the first of them: key, path, code, reason. In a folder of columns, rows without a sample.
        columns: names and types, in a folder of columns.
    """

    name: str
    snapshots: tuple[NumberedSnapshot, ...]
    splits: dict[str, SplitTotals]
    lengths: LengthFacts
    unnamed: tuple[int, int]
    num_rejected: int = 0
    rejects: tuple[tuple[str, str, str, str], ...] = ()
    columns: tuple[ColumnSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewFacts:
    """One view of an output.

    Attributes:
        name: `views/<name>`.
        numbers: numbers of its snapshots, ascending.
        newest: the newest of them.
    """

    name: str
    numbers: tuple[int, ...]
    newest: NumberedView


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """Result of the last scan of the source.

    Attributes:
        num_recordings: number of usable files.
        hours: their total length.
        num_duplicates: number of recordings whose bytes equal those of another one.
        reasons: code → number of files and rows that were rejected with it.
        rejects: the first of them: path, code, reason.
    """

    num_recordings: int
    hours: float
    num_duplicates: int
    reasons: dict[str, int]
    rejects: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class TarFacts:
    """A WebDataset that was not built by Headrace, or some shards of an output.

    Attributes:
        shards: name, number of samples (None where it is not known) and bytes of each shard.
        lengths: lengths of the samples, where the shards have indexes.
    """

    shards: tuple[tuple[str, int | None, int], ...]
    lengths: LengthFacts


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """All facts about a data set: `parts` and `views` for an output of Headrace, `tars` otherwise."""

    path: str
    parts: tuple[PartFacts, ...] = ()
    catalog: CatalogFacts | None = None
    tars: TarFacts | None = None
    views: tuple[ViewFacts, ...] = ()


def inspect(path: str) -> DatasetFacts:
    """Collect the facts about what a path names; see `headrace.locate.locate`.

    Raises:
        NotFoundError: there are no shards.
        FormatError: a snapshot is damaged.
    """
    located = locate(path)
    if located.tars is not None:
        return DatasetFacts(unsigned(path), tars=_tar_facts(shards_of(located)))
    views = tuple(map(_view_facts, view_folders(located.storage))) if located.is_output else ()
    parts = tuple(map(_part_facts, located.all_folders()))
    return DatasetFacts(path, parts, _catalog_facts(located.storage), views=views)


def _view_facts(folder: ShardFolder) -> ViewFacts:
    return ViewFacts(folder.name, folder.numbers, read_view(folder.storage))


def _part_facts(part: ShardFolder) -> PartFacts:
    snapshots = tuple(part.snapshot(number) for number in part.numbers)
    newest = snapshots[-1].snapshot
    table = read_table(part.storage, newest)
    names = set(islice(table.names(), len(table)))
    unnamed = [
        entry for entry in part.storage.list() if entry.path.endswith(SHARD_SUFFIXES) and entry.path not in names
    ]
    columns = specs_of(newest) if SPECS_KEY in newest.origin else ()
    rows = () if columns else _spread(len(table))
    lengths = _lengths(LocatedShard(part.storage, table.name(row)) for row in rows)
    extra = (len(unnamed), sum(entry.num_bytes for entry in unnamed))
    refused = _rejected(part.storage, newest) if newest.origin else ()
    rejects = tuple((row.key, row.path, row.code, row.reason) for row in refused[:_MAX_REJECTS])
    return PartFacts(part.name, snapshots, newest.splits, lengths, extra, len(refused), rejects, columns)


def _rejected(storage: Storage, snapshot: Snapshot) -> tuple[ManifestRejection, ...]:
    """Samples without latents in a snapshot of latents; empty where a manifest is missing, which `verify` reports."""
    try:
        return snapshot_rejections(storage, snapshot.manifests).refused
    except NotFoundError:
        return ()


def _spread(count: int) -> Sequence[int]:
    """Rows whose index is read: all of them, or 2,000 at equal distances."""
    if count <= _MAX_INDEXES:
        return range(count)
    return [round(place) for place in np.linspace(0, count - 1, _MAX_INDEXES)]


def _lengths(shards: Iterable[LocatedShard]) -> LengthFacts:
    indexes = [index for shard in shards if (index := _index(shard)) is not None]
    if not indexes:
        return LengthFacts()
    frames = np.concatenate([index.num_frames for index in indexes])
    rates = np.concatenate([index.sample_rate_hz for index in indexes])
    channels = np.concatenate([index.num_channels for index in indexes])
    is_timed = (frames >= 0) & (rates > 0)
    return LengthFacts(
        seconds=tuple(_three(frames[is_timed] / rates[is_timed])),
        frames=tuple(int(value) for value in _three(frames[frames >= 0])),
        rates_hz=_counted(rates[rates > 0]),
        channels=_counted(channels[channels > 0]),
        channels_of=_channels_of_fields(indexes),
        fields=tuple(sorted({name for index in indexes for name in index.fields})),
        num_indexes=len(indexes),
    )


def _channels_of_fields(indexes: Sequence[ShardIndex]) -> dict[str, dict[int, int]]:
    """Named audio field → number of channels → number of samples."""
    found: dict[str, list[np.ndarray[Any, np.dtype[np.int64]]]] = {}
    for index in indexes:
        if index.audio_facts is not None:
            for place, name in enumerate(index.audio_fields):
                found.setdefault(name, []).append(index.audio_facts[:, place, 1])
    return {name: _counted(np.concatenate(channels)) for name, channels in found.items()}


def _index(shard: LocatedShard) -> ShardIndex | None:
    try:
        return shard.index()
    except HeadraceError:
        return None  # missing or damaged, which `verify` reports


def _three(values: "np.ndarray[tuple[int], np.dtype[np.float64 | np.int64]]") -> list[float]:
    """Minimum, median and maximum; empty without values."""
    return [] if not len(values) else [float(np.quantile(values, q)) for q in (0, 0.5, 1)]


def _counted(values: "np.ndarray[tuple[int], np.dtype[np.int32 | np.int16]]") -> dict[int, int]:
    return dict(sorted(Counter(values.tolist()).items()))


def _tar_facts(shards: Sequence[LocatedShard]) -> TarFacts:
    rows = [
        (shard.url, shard.counted(), 0 if shard.storage is None else shard.storage.size(shard.name)) for shard in shards
    ]
    return TarFacts(tuple(rows), _lengths(shards[row] for row in _spread(len(shards))))


def _catalog_facts(storage: Storage) -> CatalogFacts | None:
    """The facts of the catalog; None without a catalog, or where the packages of a build are not installed."""
    try:
        from headrace.catalog.stored.parts import read_catalog  # noqa: PLC0415 - polars: a training node has none

        catalog = read_catalog(storage)
        if catalog is None:
            return None
        rejected = catalog.rejected().sort("code", "path")
    except (ImportError, HeadraceError):
        return None
    return CatalogFacts(
        num_recordings=catalog.header.num_rows,
        hours=catalog.header.seconds / 3600,
        num_duplicates=catalog.header.totals.num_duplicates,
        reasons=dict(sorted(catalog.header.reasons.items())),
        rejects=tuple(rejected.select("path", "code", "reason").head(_MAX_REJECTS).iter_rows()),
    )
