"""Reads the rows of one stream: from sample numbers to shards and byte ranges, by way of the shards' indexes.

A stream is one folder of shards, and the latents folders that are joined to it by key. Shards are opened through
`ShardAccess`, which finds them in place, in the cache, or in their store. Nothing is decoded here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.format.indexes.index import ABSENT, LONG_BYTES, ShardIndex
from headrace.format.tars.tar_names import is_packed_tar
from headrace.stores.concurrent_requests import map_on_threads
from headrace.streaming.output_fields import OutputField, hidden_field
from headrace.streaming.samples.chosen_fields import ChosenFields
from headrace.streaming.samples.clocks import Clocks
from headrace.streaming.samples.crop import kept_share
from headrace.streaming.samples.local_latents import LocalShard, holds_only_latents
from headrace.streaming.samples.shard_rows import joined_samples, lacks_time_axis, opened_samples, with_outputs
from headrace.streaming.samples.stored_sample import (
    BatchRow,
    RowWindow,
    StoredSample,
)
from headrace.streaming.settings import SampleSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.column_reader import ColumnReader, ColumnRow
from headrace.streaming.shards.shard_set import Locator, SnapshotShards
from headrace.streaming.shards.view_shards import ViewRows, ViewShards, parts_cost_less, reads_ranges
from headrace.streaming.shards.window_shards import ItemWindows, WindowRows, WindowShards, partners, stored_samples

if TYPE_CHECKING:
    from headrace.streaming.rasters import Raster

_INDEXES_AT_ONCE = 32
T = TypeVar("T")


class StreamReader:
    """Reads the rows of one stream; safe for threads."""

    def __init__(  # noqa: PLR0913 - what is joined, and what is read of it
        self,
        primary: ShardAccess,
        joined: Sequence[tuple[ShardAccess, Sequence[OutputField]]] = (),
        columns: ColumnReader | None = None,
        *,
        chosen: ChosenFields | None = None,
        outputs: Sequence[OutputField] = (hidden_field(),),
        config: SampleSettings = SampleSettings(),  # noqa: B008 - frozen
        measured: Sequence[tuple[ShardAccess, Sequence[OutputField]]] = (),
    ) -> None:
        """Open no shard yet.

        Args:
            primary: the stream's own shards.
            joined: the shards of each joined latents folder, and its outputs that are read.
            columns: the columns that are joined to its samples; None without columns.
            chosen: the fields of its samples that are read; None for all.
            outputs: the outputs of its own latents that are read; the first is that of its samples.
            config: how samples are cropped.
            measured: of its own shards and each joined latents folder all outputs, read or not; given with `chosen`.
        """
        self.primary = primary
        self.joined = tuple(access for access, _ in joined)
        self.outputs = (tuple(outputs), *(tuple(fields) for _, fields in joined))
        """The outputs that are read of its own latents, and of each joined folder."""
        self.locator = Locator.of(primary.shards.shards.num_samples)
        shards = primary.shards.shards
        self._items = _item_rows(primary)
        self.columns = columns
        self._chosen = chosen
        self._config = config
        primary.reads_cuts = config.crops or isinstance(shards, WindowShards)
        self.rasters: Sequence[tuple[str, Raster]] = ()
        """Names of fields, and the grids of events that they are."""
        self._small_parts: dict[tuple[str, ...], bool] = {}
        self._partners = [partners(shards, _snapshot_shards(access)) for access in self.joined]
        self._clocks = None if chosen is None else self._clocks_of(measured)
        is_plain = not joined and columns is None and chosen is None and len(outputs) == 1
        self._may_copy = is_plain and not isinstance(shards, WindowShards)

    def shards_of(self, samples: NDArray[np.int64]) -> Iterator[tuple[ShardAccess, int]]:
        """Every shard that is fetched whole for these samples, in the order of first use: what to prefetch.

        Shards of which a view takes so few samples that they are read by ranges are left out.
        """
        shards, _ = self.locator.find(samples)
        for shard in dict.fromkeys(shards.tolist()):
            for access, number in self.with_joined(shard):
                if not self.reads_ranges(shard, access, number):
                    yield access, number

    def shards_with_columns(self, samples: NDArray[np.int64]) -> list[int]:
        """Every shard whose columns these samples need, in the order of first use; empty without columns."""
        if self.columns is None:
            return []
        shards, _ = self.locator.find(samples)
        return list(dict.fromkeys(shards.tolist()))

    def find(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shard and stored row of each sample number, both int64 of the same shape.

        Of a view, the counts are read; of windows, the indexes.
        """
        shards, rows = self.locator.find(samples)
        return shards, rows if self._items is None else self._items.rows(shards, rows)

    def windows(self, samples: NDArray[np.int64]) -> ItemWindows | None:
        """The window that each number of a sample means; None if samples are not cut into windows."""
        return self._items.of(*self.locator.find(samples)) if isinstance(self._items, WindowRows) else None

    def samples_of(
        self, keys: Collection[str], progress: Callable[[], object] = lambda: None
    ) -> tuple[NDArray[np.int64], set[str]]:
        """Numbers of the samples with these keys, int64 (n,), and the keys that were found. Reads all indexes.

        A key has several numbers if a view has copies of its sample.
        """
        wanted, found, there = frozenset(keys), [np.zeros(0, np.int64)], set[str]()
        for shard in range(self.locator.num_shards):
            progress()
            rows = {row: key for row, key in enumerate(self.primary.index(shard).keys()) if key in wanted}
            if rows:
                samples = np.arange(self.locator.offsets[shard], self.locator.offsets[shard + 1])
                found.append(samples[np.isin(self.find(samples)[1], list(rows))])
                there.update(rows.values())
        return np.concatenate(found), there

    def reads_ranges(self, shard: int, access: ShardAccess, number: int) -> bool:
        """Whether samples are fetched one by one: because a view takes few of a shard, or of each only a small part.

        Args:
            shard: a shard of the stream's own.
            access: the folder of that shard, or of a shard that is joined to it.
            number: the shard in that folder.
        """
        if self._chosen is not None and access is self.primary:
            index = access.index(number)
            if (is_small := self._small_parts.get(index.fields)) is None:
                is_small = self._small_parts[index.fields] = self._chosen.is_small_part(index, access.name(number))
            if is_small:
                return True
        if access is self.primary and access.reads_cuts and self._parts_cost_less(shard, access.index(number)):
            return True
        shards = self.primary.shards.shards
        own, shard = (shards.whole, int(shards.chosen[shard])) if isinstance(shards, WindowShards) else (shards, shard)
        if not isinstance(own, ViewShards):
            return False
        drawn = int(own.num_samples[shard])
        # A joined shard has the same samples.
        return reads_ranges(drawn, own.stored_samples(shard), int(access.shards.shards.num_bytes[number]))

    def _parts_cost_less(self, shard: int, index: ShardIndex) -> bool:
        """Whether fetching only what is cut out of long recordings costs less than the whole shard."""
        if index.num_bytes <= LONG_BYTES * len(index) or is_packed_tar(self.primary.name(shard)):
            return False
        own = self.primary.shards.shards
        share = kept_share(index, own.windows if isinstance(own, WindowShards) else self._config)
        part_bytes, has_points = index.num_bytes * share / len(index), index.seeks is not None
        return parts_cost_less(int(own.num_samples[shard]), part_bytes, index.num_bytes, has_points=has_points)

    def stored_samples(self, shard: int) -> int:
        """Samples that a shard of the stream's own holds, whether a view takes them or not."""
        return stored_samples(self.primary.shards.shards, shard)

    def with_joined(self, shard: int) -> Iterator[tuple[ShardAccess, int]]:
        """A shard of the stream's own, and the shards with the latents of its samples."""
        yield self.primary, shard
        for access, partner in zip(self.joined, self._partners, strict=True):
            if partner[shard] != ABSENT:
                yield access, int(partner[shard])

    def lengths(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frames of each sample, int64 of the same shape; 0 for rejected latents, -1 if unknown.

        The indexes have them; those of shards with one sample, the table of the snapshot has as well.
        """
        if (windows := self.windows(samples)) is not None:
            return windows.num_frames
        shards, rows = self.locator.find(samples)
        lengths = self.primary.shards.shards.lone_lengths(shards)
        unknown = np.flatnonzero(lengths < 0)
        if self._items is not None and len(unknown):
            rows[unknown] = self._items.rows(shards[unknown], rows[unknown])
        for index, places in self._indexes(shards, unknown):
            lengths[places] = index.lengths[rows[places]]
        return lengths

    def rates(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Sample rate of the audio in Hz, int64 (n,), and frame rate of the latents in Hz, float64 (n,).

        A rate is 0 where a sample has no audio, or no latents. Only the indexes have rates, also of lone samples.
        """
        shards, rows = self.find(samples)
        audio, latents = np.zeros(len(samples), np.int64), np.zeros(len(samples), np.float64)
        for index, places in self._indexes(shards, np.arange(len(samples))):
            audio[places], latents[places] = index.sample_rate_hz[rows[places]], index.latent_rate_hz
        return audio, latents

    def rows(self, samples: NDArray[np.int64], positions: Sequence[int], *, patient: bool) -> list[BatchRow]:
        """The rows of these samples, in order; each shard is opened once.

        Args:
            samples: int64 (n,).
            positions: the position of each in the epoch.
            patient: wait for a shard that is being downloaded, instead of fetching only these samples by ranged reads.
        """
        shards, numbers = (found.tolist() for found in self.find(samples))
        windows = self._windows_of(samples)
        places_of: dict[int, list[int]] = {}
        for place, shard in enumerate(shards):
            places_of.setdefault(shard, []).append(place)
        made: list[BatchRow | None] = [None] * len(shards)

        def make(shard: int) -> None:
            places = places_of[shard]
            rows = [numbers[place] for place in places]
            first = self.outputs[0][0].number
            own = opened_samples(self.primary, shard, rows, patient=patient, chosen=self._chosen, output=first)
            joined = self._joined_to(shard, own, patient=patient)
            columns: Iterable[ColumnRow | None] = (
                repeat(None) if self.columns is None else self.columns.rows(shard, rows)
            )
            clocks = repeat(None) if self._clocks is None else self._clocks.of(shard, rows)
            for place, sample, others, values, clock in zip(places, own, joined, columns, clocks, strict=False):
                made[place] = BatchRow(sample, others, positions[place], values, windows[place], self.rasters, clock)

        self._side_by_side(make, list(places_of))
        return [row for row in made if row is not None]

    def _clocks_of(self, measured: Sequence[tuple[ShardAccess, Sequence[OutputField]]]) -> Clocks:
        """The clocks; where no crop is moved to the frames of other latents, without those."""
        (_, own), *joined = measured if self._config.crops else [(self.primary, ())]
        shards = self.primary.shards.shards
        found = [(access, outputs, partners(shards, _snapshot_shards(access))) for access, outputs in joined]
        return Clocks(self.primary, own, found)

    def _windows_of(self, samples: NDArray[np.int64]) -> Sequence[RowWindow | None]:
        if (found := self.windows(samples)) is None:
            return [None] * len(samples)
        return [RowWindow(*frames) for frames in zip(*(part.tolist() for part in found[1:]), strict=True)]

    def local_shards(self, shards: list[int]) -> dict[int, LocalShard] | None:
        """These shards, by number; None unless all hold latents only and are local files.

        If a shard holds anything else, all later calls return None at once.
        """
        if not self._may_copy or self.rasters:
            return None
        # Shards that are still open from earlier calls; not those of a cache, where each use must be recorded.
        known = self.primary.files.notes if self.primary.is_local else {}
        found = {shard: known[shard] for shard in shards if shard in known}
        missing = [shard for shard in shards if shard not in found]
        for shard, opened in zip(missing, self._side_by_side(self._opened, missing), strict=True):
            if opened is None:
                return None
            found[shard] = opened
            if self.primary.is_local:
                self.primary.files.note(shard, opened)
        return found

    def _indexes(
        self, shards: NDArray[np.int64], wanted: NDArray[np.int64]
    ) -> Iterator[tuple[ShardIndex, NDArray[np.int64]]]:
        """The index of each shard at some places of `shards`, and these places; several are downloaded at a time."""
        by_shard = wanted[np.argsort(shards[wanted], kind="stable")]
        needed, starts = np.unique(shards[by_shard], return_index=True)
        bounds = np.append(starts, len(wanted)).tolist()
        for first in range(0, len(needed), _INDEXES_AT_ONCE):
            group = needed[first : first + _INDEXES_AT_ONCE].tolist()
            if not self.primary.is_local:
                map_on_threads(self.primary.index, group, "index")
            for place, shard in enumerate(group, first):
                yield self.primary.index(shard), by_shard[bounds[place] : bounds[place + 1]]

    def _side_by_side(self, task: Callable[[int], T], shards: Sequence[int]) -> list[T]:
        """The results of a task for each shard; tasks that may wait for a store run on threads."""
        waiting = [] if self.primary.is_local else [shard for shard in shards if not self._is_at_hand(shard)]
        found = dict(zip(waiting, map_on_threads(task, waiting, "open"), strict=True)) if len(waiting) > 1 else {}
        return [found[shard] if shard in found else task(shard) for shard in shards]

    def _is_at_hand(self, shard: int) -> bool:
        """Whether a shard and the shards joined to it are open."""
        if shard not in self.primary.files or not (self.columns is None or self.columns.is_at_hand(shard)):
            return False
        partners = zip(self.joined, (int(found[shard]) for found in self._partners), strict=True)
        return all(partner == ABSENT or partner in access.files for access, partner in partners)

    def _opened(self, shard: int) -> LocalShard | None:
        index = self.primary.index(shard)
        if not holds_only_latents(index):
            if not index.rejections:  # if all latents of a shard were rejected, other shards may still hold latents
                self._may_copy = False
            return None
        return LocalShard.opened(self.primary, shard)

    def _joined_to(
        self, shard: int, own: Sequence[StoredSample], *, patient: bool
    ) -> Iterable[tuple[StoredSample | None, ...]]:
        """For each sample of a shard, the same sample in each joined folder."""
        columns: list[Sequence[StoredSample | None]] = [with_outputs(own, field) for field in self.outputs[0][1:]]
        keys = [sample.key for sample in own] if self.joined else []
        for place, access in enumerate(self.joined):
            partner, fields = int(self._partners[place][shard]), self.outputs[place + 1]
            if partner == ABSENT:
                columns += [[None] * len(own)] * len(fields)
                continue
            first = joined_samples(access, partner, keys, patient=patient, output=fields[0].number)
            if fields[0].number == 0 and lacks_time_axis(access, partner):
                for sample in first:
                    if sample is not None:
                        sample.has_time_axis = False
            columns += [first, *(with_outputs(first, field) for field in fields[1:])]
        return zip(*columns, strict=True) if columns else [()] * len(own)


def _item_rows(primary: ShardAccess) -> ViewRows | WindowRows | None:
    """The rows of the samples of a view, or of windows; None if each row is a sample."""
    shards, folder = primary.shards.shards, primary.cache.folder
    if isinstance(shards, WindowShards):
        return WindowRows(shards, primary.index, folder)
    return ViewRows(shards, folder) if isinstance(shards, ViewShards) else None


def _snapshot_shards(access: ShardAccess) -> SnapshotShards:
    shards = access.shards.shards
    assert isinstance(shards, SnapshotShards)  # only such folders can be joined
    return shards
