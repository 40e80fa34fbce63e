"""The rows of a batch before they are decoded: which sample of which shard each is, and where its bytes lie.

Owns the step from sample numbers to byte ranges, by way of the shards' indexes. It opens shards through `access` and
decodes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import TypeVar
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, IntegrityError, NotFoundError, SampleError
from headrace.index import ABSENT, TensorPlace
from headrace.indexing import LATENT_FIELD, audio_field
from headrace.streaming.batches.columns import JSON_FIELD, LocalShard, is_plain, local_file
from headrace.streaming.batches.fields import is_taken
from headrace.streaming.parallel import map_on_threads
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.coalesce import Span
from headrace.streaming.shards.opened import BlobShard, OpenShard
from headrace.streaming.shards.shardset import Locator, SnapshotShards

_INDEXES_AT_ONCE = 32
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of an index hold what.

    Attributes:
        audio: columns that may hold a sample's audio, and whether that is FLAC: the first that it has counts.
        latents: None where a shard has none.
        json: None where a shard has none.
        extra: name and column of what is neither latents nor JSON.
        beside_latents: all columns but that of the latents.
        taken: names among `extra` that batches have for fields of their own.
    """

    audio: tuple[tuple[int, bool], ...]
    latents: int | None
    json: int | None
    extra: tuple[tuple[str, int], ...]
    beside_latents: tuple[int, ...]
    taken: frozenset[str]


@lru_cache(maxsize=256)
def layout_of(fields: tuple[str, ...]) -> Layout:
    """The layout of a shard whose samples have these fields."""
    audio: list[str] = []
    while (found := audio_field(tuple(name for name in fields if name not in audio))) is not None:
        audio.append(found)
    return Layout(
        audio=tuple((fields.index(name), name.rpartition(".")[2] == "flac") for name in audio),
        latents=fields.index(LATENT_FIELD) if LATENT_FIELD in fields else None,
        json=fields.index(JSON_FIELD) if JSON_FIELD in fields else None,
        extra=tuple((name, c) for c, name in enumerate(fields) if name not in {LATENT_FIELD, JSON_FIELD}),
        beside_latents=tuple(c for c, name in enumerate(fields) if name != LATENT_FIELD),
        taken=frozenset(name for name in fields if is_taken(name)),
    )


@dataclass(slots=True)
class Part:
    """One sample in one shard, ready to be read.

    Attributes:
        access: the stream that its shard belongs to.
        shard: the shard's number there.
        file: the open shard; None when it could not be opened (`fault` says why).
        key: the sample's `__key__`.
        layout: which of `spans` holds what.
        num_frames: stored frames; -1 when unknown.
        sample_rate_hz: 0 when unknown or not audio.
        num_channels: 0 when unknown or not audio.
        tensor: the raw latents; None where there are none.
        spans: start and stop of each field, column after column; `ABSENT` where there is none.
        tensor_dtype: name of the raw latents' dtype.
        latent_rate_hz: latent frames in a second; 0 when unknown or no latents.
        fault: why the shard could not be opened.
    """

    access: ShardAccess
    shard: int
    file: OpenShard | None
    key: str
    layout: Layout
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    tensor: TensorPlace | None
    spans: list[int]
    tensor_dtype: str
    latent_rate_hz: float
    fault: OSError | None = None

    @property
    def shard_name(self) -> str:
        """Its shard's path in its store, for messages."""
        return self.access.name(self.shard)

    @property
    def called(self) -> str:
        """What messages call it."""
        return f"{self.shard_name}: sample {self.key!r}"

    def opened(self) -> OpenShard:
        """The open shard. Raises why it could not be opened."""
        if self.file is None:
            raise SampleError(str(self.fault)) from self.fault
        return self.file

    def span(self, column: int | None) -> Span | None:
        """Byte range of a field; None where the sample lacks it."""
        if column is None or (start := self.spans[2 * column]) == ABSENT:
            return None
        return start, self.spans[2 * column + 1]

    def audio(self) -> tuple[Span, bool] | None:
        """Byte range of the audio, and whether it is FLAC; None for a sample without audio."""
        for column, is_flac in self.layout.audio:
            if (span := self.span(column)) is not None:
                return span, is_flac
        return None

    def extra(self) -> Iterator[tuple[str, Span]]:
        """Fields that are neither the audio, latents nor JSON: name and byte range.

        Raises:
            ConfigError: a batch has one of that name itself.
        """
        if len(self.layout.extra) > (1 if self.layout.audio else 0):  # more than the audio that was taken
            audio = self.audio()
            for name, column in self.layout.extra:
                span = self.span(column)
                if span is not None and (audio is None or span != audio[0]):
                    if name in self.layout.taken:
                        raise ConfigError(
                            f"{self.called}: its file .{name} would be the field {name!r} of a batch, which is the "
                            "batch's own: rename such files in the tar"
                        )
                    yield name, span


@dataclass(slots=True)
class Row:
    """One sample with its joined latents.

    Attributes:
        primary: the part that the order counts.
        joined: one a latents folder; None where it lacks the key.
        position: the row of the epoch that it is.
    """

    primary: Part
    joined: tuple[Part | None, ...]
    position: int

    @property
    def parts(self) -> tuple[Part | None, ...]:
        """The primary, then those joined to it."""
        return (self.primary, *self.joined)


class StreamReader:
    """Rows of one stream: its own shards, and those of the latents joined to it by key."""

    def __init__(self, primary: ShardAccess, joined: Sequence[ShardAccess] = ()) -> None:
        self.primary = primary
        self.joined = tuple(joined)
        self.locator = Locator.of(primary.shards.shards.num_samples)
        self._partners = [_partners(primary, access) for access in joined]
        self._is_plain = not joined

    def shards_of(self, samples: NDArray[np.int64]) -> Iterator[tuple[ShardAccess, int]]:
        """Every shard that these samples need, in the order of their first need: what to prefetch."""
        shards, _ = self.locator.find(samples)
        for shard in dict.fromkeys(shards.tolist()):
            yield from self.with_joined(shard)

    def with_joined(self, shard: int) -> Iterator[tuple[ShardAccess, int]]:
        """A shard of the stream's own, and those that hold its samples' latents."""
        yield self.primary, shard
        for access, partner in zip(self.joined, self._partners, strict=True):
            if partner[shard] != ABSENT:
                yield access, int(partner[shard])

    def lengths(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frames of each sample from the indexes, int64 of the same shape; -1 where unknown."""
        shards, rows = self.locator.find(samples)
        needed = sorted(set(shards.tolist()))
        if not self.primary.is_local:
            for start in range(0, len(needed), _INDEXES_AT_ONCE):
                map_on_threads(self.primary.index, needed[start : start + _INDEXES_AT_ONCE], "index")
        lengths = np.empty(len(samples), np.int64)
        for shard in needed:
            chosen = shards == shard
            lengths[chosen] = self.primary.index(shard).num_frames[rows[chosen]]
        return lengths

    def rows(self, samples: NDArray[np.int64], positions: Sequence[int], *, patient: bool) -> list[Row]:
        """The rows of these samples, in order; each shard is opened once.

        Args:
            samples: int64 (n,).
            positions: the position of each in the epoch.
            patient: wait for a shard that is on its way, instead of fetching just these samples by ranged reads.
        """
        shards, numbers = (found.tolist() for found in self.locator.find(samples))
        places_of: dict[int, list[int]] = {}
        for place, shard in enumerate(shards):
            places_of.setdefault(shard, []).append(place)
        made: list[Row | None] = [None] * len(shards)

        def make(shard: int) -> None:
            places = places_of[shard]
            own = _parts(self.primary, shard, [numbers[place] for place in places], patient=patient)
            joined = self._joined_to(shard, own, patient=patient)
            for place, part, others in zip(places, own, joined, strict=True):
                made[place] = Row(part, others, positions[place])

        self._side_by_side(make, list(places_of))
        return [row for row in made if row is not None]

    def local_files(self, shards: list[int]) -> list[LocalShard] | None:
        """Index and local file of each of these shards; None unless all hold raw latents and are there.

        A stream that was found to hold anything else is not looked at again.
        """
        if not self._is_plain:
            return None
        # What was opened before and is still kept; nothing of a cache, whose files must be seen to be in use.
        known = self.primary.files.notes if self.primary.is_local else {}
        found: list[LocalShard | None] = [known.get(shard) for shard in shards]
        missing = [place for place, shard in enumerate(found) if shard is None]
        opened = self._side_by_side(self._opened, [shards[place] for place in missing])
        for place, shard in zip(missing, opened, strict=True):
            if shard is None:
                return None
            found[place] = shard
            if self.primary.is_local:
                self.primary.files.note(shards[place], shard)
        return [shard for shard in found if shard is not None]

    def _side_by_side(self, task: Callable[[int], T], shards: Sequence[int]) -> list[T]:
        """The results of a task for each shard: those that may wait for a store on threads, in the time of one."""
        waiting = [] if self.primary.is_local else [shard for shard in shards if not self._is_at_hand(shard)]
        found = dict(zip(waiting, map_on_threads(task, waiting, "open"), strict=True)) if len(waiting) > 1 else {}
        return [found[shard] if shard in found else task(shard) for shard in shards]

    def _is_at_hand(self, shard: int) -> bool:
        """Whether a shard and what is joined to it are open."""
        if shard not in self.primary.files:
            return False
        partners = zip(self.joined, (int(found[shard]) for found in self._partners), strict=True)
        return all(partner == ABSENT or partner in access.files for access, partner in partners)

    def _opened(self, shard: int) -> LocalShard | None:
        index = self.primary.index(shard)
        if not is_plain(index):
            self._is_plain = False
            return None
        file = local_file(self.primary, shard)
        return None if file is None else LocalShard(index, file)

    def _joined_to(self, shard: int, own: Sequence[Part], *, patient: bool) -> Iterable[tuple[Part | None, ...]]:
        """For each of a shard's parts, its parts in the joined folders."""
        if not self.joined:
            return [()] * len(own)
        columns: list[Sequence[Part | None]] = []
        for access, partners in zip(self.joined, self._partners, strict=True):
            partner = int(partners[shard])
            if partner == ABSENT:
                columns.append([None] * len(own))
            else:
                columns.append(_joined_parts(access, partner, [part.key for part in own], patient=patient))
        return zip(*columns, strict=True)


def _parts(access: ShardAccess, shard: int, rows: Sequence[int], *, patient: bool) -> list[Part]:
    """Parts of some rows of one shard, opened with the bytes that they need."""
    index = access.index(shard)
    found = [index.row(row) for row in rows]
    file: OpenShard | None = None
    fault: OSError | None = None
    try:
        file = access.open(shard, lambda: [_region(sample.spans) for sample in found], patient=patient)
    except (IntegrityError, NotFoundError) as error:
        fault = error
    layout, dtype, rate_hz = layout_of(index.fields), index.tensor_dtype, index.latent_rate_hz
    parts = [
        Part(access, shard, file, index.key(row), layout, *sample, dtype, rate_hz, fault)
        for row, sample in zip(rows, found, strict=True)
    ]
    if access.is_named_by_content and isinstance(file, BlobShard):  # no digest of the shard was checked on arrival
        for part in parts:
            _check_latents(part, file)
    return parts


def _check_latents(part: Part, file: BlobShard) -> None:
    """Compare raw latents with the CRC-32 that the `.pth`, a zip archive, holds of them; a flipped bit is a fault.

    FLAC has checksums of its own, which its decoder looks at.
    """
    span = part.span(part.layout.latents) if part.tensor is not None else None
    if span is None:
        return
    try:
        with ZipFile(BytesIO(file.read(*span))) as archive:
            damaged = archive.testzip()
    except (BadZipFile, OSError) as error:
        damaged = str(error)
    if damaged is not None:
        part.file = None
        part.fault = IntegrityError(
            f"{part.shard_name}: the latents of {part.key!r} came damaged ({damaged}): the copy in the store or the "
            "line to it is damaged"
        )


def _joined_parts(access: ShardAccess, shard: int, keys: Sequence[str], *, patient: bool) -> list[Part | None]:
    index = access.index(shard)
    found = [index.find(key) for key in keys]
    parts = iter(_parts(access, shard, [row for row in found if row is not None], patient=patient))
    return [None if row is None else next(parts) for row in found]


def _region(spans: Sequence[int]) -> Span:
    present = [edge for edge in spans if edge != ABSENT]
    return min(present), max(present)


def _partners(primary: ShardAccess, joined: ShardAccess) -> NDArray[np.int64]:
    """The joined shard with the same samples as each primary one, int64 (n,); -1 where there is none."""
    ours, theirs = primary.shards.shards, joined.shards.shards
    assert isinstance(ours, SnapshotShards)
    assert isinstance(theirs, SnapshotShards)
    splits = sorted({*ours.table.splits, *theirs.table.splits})
    wanted, found = ours.places(splits), theirs.places(splits)
    if not len(found):
        return np.full(len(wanted), ABSENT, np.int64)
    order = np.argsort(found, kind="stable")
    spot = order[np.minimum(np.searchsorted(found, wanted, sorter=order), len(found) - 1)]
    return np.where(found[spot] == wanted, spot, ABSENT)
