"""What is in a data set, as facts for a person to read.

Owns gathering them: from snapshots and indexes for outputs of ours, from `sizes.json` and indexes for anybody's tars.
It reads no shard's payload and draws nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from headrace.errors import HeadraceError
from headrace.index import ShardIndex, index_name
from headrace.outputs import Part, find_parts
from headrace.shardlists import Shard, resolve_shards
from headrace.snapshots import NumberedSnapshot, SplitTotals, read_table
from headrace.storage import Storage, open_storage
from headrace.streaming.shards.finding import is_pattern

_MAX_INDEXES = 2_000  # more would not change what a person sees
_MAX_REJECTS = 20


@dataclass(frozen=True, slots=True)
class Lengths:
    """What the indexes say of the samples.

    Attributes:
        seconds: shortest, median and longest; empty for latents and where lengths are not known.
        frames: shortest, median and longest, in PCM or latent frames; empty where they are not known.
        rates_hz: sample rate → samples.
        channels: number of channels → samples.
        fields: fields of the samples.
        num_indexes: how many shards' indexes were read.
    """

    seconds: tuple[float, ...] = ()
    frames: tuple[int, ...] = ()
    rates_hz: dict[int, int] = field(default_factory=dict)
    channels: dict[int, int] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    num_indexes: int = 0


@dataclass(frozen=True, slots=True)
class PartFacts:
    """One shard folder of an output at its newest snapshot.

    Attributes:
        name: `audio`, `latents/<name>` or `.`.
        snapshots: all of its snapshots, ascending.
        splits: totals by split, of the newest.
        lengths: what its indexes say.
        unnamed: shards that the newest snapshot does not name, and their bytes: older snapshots', or garbage.
    """

    name: str
    snapshots: tuple[NumberedSnapshot, ...]
    splits: dict[str, SplitTotals]
    lengths: Lengths
    unnamed: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """What the last scan of the source found.

    Attributes:
        num_recordings: files that can be used.
        hours: their length together.
        num_duplicates: recordings whose bytes another one has too.
        reasons: code → how many files and rows were refused for it.
        rejects: the first of them: path, code, reason.
    """

    num_recordings: int
    hours: float
    num_duplicates: int
    reasons: dict[str, int]
    rejects: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class TarFacts:
    """A WebDataset that is not an output of ours.

    Attributes:
        shards: shard, its samples (None when nothing says) and bytes.
        lengths: what its indexes say, where it has any.
    """

    shards: tuple[tuple[str, int | None, int], ...]
    lengths: Lengths


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything about a path; `parts` for outputs of ours, `tars` otherwise."""

    path: str
    parts: tuple[PartFacts, ...] = ()
    catalog: CatalogFacts | None = None
    tars: TarFacts | None = None


def inspect(path: str) -> Facts:
    """What is there.

    Raises:
        NotFoundError: nothing is.
        FormatError: a snapshot is damaged.
    """
    storage = open_storage(path)
    parts = [] if is_pattern(path) else find_parts(storage)
    if not parts:
        return Facts(path, tars=_tar_facts(resolve_shards(path)))
    return Facts(path, tuple(_part_facts(part) for part in parts), _catalog_facts(storage))


def _part_facts(part: Part) -> PartFacts:
    snapshots = tuple(part.snapshot(number) for number in part.numbers)
    newest = snapshots[-1].snapshot
    table = read_table(part.storage, newest)
    names = set(islice(table.names(), len(table)))
    unnamed = [entry for entry in part.storage.list() if entry.path.endswith(".tar") and entry.path not in names]
    lengths = _lengths(Shard(part.storage, table.name(row)) for row in _spread(len(table)))
    extra = (len(unnamed), sum(entry.num_bytes for entry in unnamed))
    return PartFacts(part.name, snapshots, newest.splits, lengths, extra)


def _spread(count: int) -> Sequence[int]:
    """Rows to look at: all, or evenly chosen ones of very many."""
    if count <= _MAX_INDEXES:
        return range(count)
    return [round(place) for place in np.linspace(0, count - 1, _MAX_INDEXES)]


def _lengths(shards: Iterable[Shard]) -> Lengths:
    indexes = [index for shard in shards if (index := _index(shard)) is not None]
    if not indexes:
        return Lengths()
    frames = np.concatenate([index.num_frames for index in indexes])
    rates = np.concatenate([index.sample_rate_hz for index in indexes])
    channels = np.concatenate([index.num_channels for index in indexes])
    is_timed = (frames >= 0) & (rates > 0)
    return Lengths(
        seconds=tuple(_three(frames[is_timed] / rates[is_timed])),
        frames=tuple(int(value) for value in _three(frames[frames >= 0])),
        rates_hz=_counted(rates[rates > 0]),
        channels=_counted(channels[channels > 0]),
        fields=tuple(sorted({name for index in indexes for name in index.fields})),
        num_indexes=len(indexes),
    )


def _index(shard: Shard) -> ShardIndex | None:
    if shard.storage is None:
        return None
    path = index_name(shard.name)
    try:
        return ShardIndex.from_bytes(shard.storage.read(path), path)
    except HeadraceError:
        return None  # not there, or damaged, which is `verify`'s to say


def _three(values: "np.ndarray[tuple[int], np.dtype[np.float64 | np.int64]]") -> list[float]:
    """Least, median and greatest."""
    return [] if not len(values) else [float(np.quantile(values, q)) for q in (0, 0.5, 1)]


def _counted(values: "np.ndarray[tuple[int], np.dtype[np.int32 | np.int16]]") -> dict[int, int]:
    return dict(sorted(Counter(values.tolist()).items()))


def _tar_facts(shards: Sequence[Shard]) -> TarFacts:
    rows = [
        (shard.url, shard.counted(), 0 if shard.storage is None else shard.storage.size(shard.name)) for shard in shards
    ]
    return TarFacts(tuple(rows), _lengths(shards[row] for row in _spread(len(shards))))


def _catalog_facts(storage: Storage) -> CatalogFacts | None:
    """None where no catalog is, as below a shard folder, or where the build's packages are not installed."""
    try:
        from headrace.catalog_files import read_catalog  # noqa: PLC0415 - polars: a training node has none

        catalog = read_catalog(storage)
    except (ImportError, HeadraceError):
        return None
    if catalog is None:
        return None
    rejected = catalog.rejected.sort("code", "path")
    return CatalogFacts(
        num_recordings=catalog.recordings.height,
        hours=float((catalog.recordings["num_frames"] / catalog.recordings["sample_rate_hz"]).sum()) / 3600,
        num_duplicates=catalog.recordings.height - catalog.recordings["sha256"].n_unique(),
        reasons=dict(sorted(Counter(rejected["code"].to_list()).items())),
        rejects=tuple(rejected.select("path", "code", "reason").head(_MAX_REJECTS).iter_rows()),
    )
