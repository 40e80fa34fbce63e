"""Computes when the readers of a host need each file of a cache folder next, so that the cache can evict the others.

The order is a function: from the positions of the readers, which are in the folder (`shards.cache_readers`), follows
what each of them takes later in this epoch and in the next one (`order.shard_uses`). Processes with the same order are
computed here. For processes with another order that read the same shards this process knows no future, and then the
last use decides, as it does for the files of others.
"""

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError
from headrace.format.lazy import cached_property
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.cache.cache_readers import ReadData, ReaderAt, ReaderFacts, RegisteredReader, readers
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.shard_uses import ShardUses
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, LengthBuckets
from headrace.streaming.order.state import OrderState
from headrace.streaming.recent import Recent
from headrace.streaming.run.epochs import EpochRun
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.shard_names import ShardNames
from headrace.streaming.shards.window_shards import NumberedShards, numbered
from headrace.streaming.world import World

_EPOCHS_KEPT = 3
_STEPS_OF_BLOCK = 8  # positions of readers are rounded down to an eighth of a shuffle block and computed together

Flags = NDArray[np.bool_]
Orders = Callable[[int], EpochOrder]


class EpochUses:
    """The next uses of shards in one epoch, counted in rows."""

    def __init__(self, order: EpochOrder) -> None:
        self.order = order
        self._start = order.phases[-1].start
        self._end = self._start + order.num_rows
        self._names = [stream.name for stream in order.phases[-1].streams]
        at_end = order.stream_positions(self._end)
        self._totals = [at_end[name] for name in self._names]
        slack = _slack(order)
        self._streams = [ShardUses(stream, slack) for stream in order.streams]

    @cached_property
    def step(self) -> int:
        """Rows to which positions of readers are rounded."""
        blocks = 0
        for stream in self.order.streams:
            if not stream.size:
                continue
            is_cut = stream.is_shuffled and stream.block_size(stream.size) < stream.size
            blocks += stream.block_size(stream.size) if is_cut else stream.size // len(stream.shard_sizes)
        return max(1, blocks // _STEPS_OF_BLOCK)

    def rows_left(self, row: int) -> int:
        """Rows from a row to the end of the epoch."""
        return max(0, self._end - row)

    def distances(self, streams: Sequence[NDArray[np.int64]], row: int, wanted: Flags) -> list[NDArray[np.float64]]:
        """Rows from `row` to the next use of shards in the epoch, for each stream float64 (n,); infinity without one.

        Args:
            streams: numbers of shards, for each stream.
            row: row of the epoch.
            wanted: (g,), which rows count: those whose number modulo g is marked.
        """
        row = min(max(row, self._start), self._end)
        taken = self.order.stream_positions(row)
        found = []
        for name, total, uses, shards in zip(self._names, self._totals, self._streams, streams, strict=True):
            if not len(shards):
                found.append(np.zeros(0))
                continue
            left = total - taken[name]
            rows = self.rows_left(row) / left if left > 0 else 1.0
            found.append(uses.distances(shards, taken[name], wanted) * rows)
        return found


def ranks_apart(order: EpochOrder, world_size: int) -> int:
    """Number of groups of ranks that take different positions of the streams: those equal modulo this number."""
    is_in_slots = order.spec.batching_method is BatchingMethod.RANDOM and order.spec.buckets is None
    return gcd(order.spec.num_canonical_nodes, world_size) if is_in_slots else 1


def host_distances(
    streams: Sequence[NDArray[np.int64]], at: Iterable[tuple[int, int, World]], epoch_uses: Callable[[int], EpochUses]
) -> list[NDArray[np.float64]]:
    """Rows until one of some readers needs each shard, for each stream float64 (n,); infinity if none does.

    A reader's future ends with the epoch after its own.

    Args:
        streams: numbers of shards, for each stream.
        at: epoch, row and rank of each reader.
        epoch_uses: the uses in an epoch.
    """
    return _distances(streams, _groups(at, epoch_uses), epoch_uses)


@dataclass(frozen=True, slots=True)
class _Group:
    """Readers at about the same row of an epoch.

    Attributes:
        epoch: the epoch.
        row: their row, rounded down.
        apart: groups of ranks that take different positions, see `ranks_apart`.
        ranks: which of these groups the readers are in.
    """

    epoch: int
    row: int
    apart: int
    ranks: frozenset[int]


def _groups(at: Iterable[tuple[int, int, World]], epoch_uses: Callable[[int], EpochUses]) -> frozenset[_Group]:
    found: dict[tuple[int, int, int], set[int]] = {}
    for epoch, row, world in at:
        uses = epoch_uses(epoch)
        apart = ranks_apart(uses.order, world.world_size)
        found.setdefault((epoch, row // uses.step * uses.step, apart), set()).add(world.rank % apart)
    return frozenset(_Group(*place, frozenset(ranks)) for place, ranks in found.items())


def _distances(
    streams: Sequence[NDArray[np.int64]], groups: Iterable[_Group], epoch_uses: Callable[[int], EpochUses]
) -> list[NDArray[np.float64]]:
    found = [np.full(len(shards), np.inf) for shards in streams]
    for group in groups:
        wanted = np.isin(np.arange(group.apart), list(group.ranks))
        now, then = epoch_uses(group.epoch), epoch_uses(group.epoch + 1)
        here = now.distances(streams, group.row, wanted)
        later = then.distances(streams, 0, wanted)
        for best, first, second in zip(found, here, later, strict=True):
            np.minimum(best, np.minimum(first, second + now.rows_left(group.row)), out=best)
    return found


class FolderUses:
    """Next uses by the readers of one cache folder (`eviction.NextUses`); registers this process there."""

    def __init__(self, cache: ShardCache, streams: Sequence[StreamReader], run: EpochRun, orders: "RunOrders") -> None:
        """Nothing is read or written before `moved`."""
        self._cache = cache
        self._run = run
        self._orders = orders
        self._facts = ReaderFacts(orders.digest, run.world.rank, run.world.world_size, tuple(_data(cache, streams)))
        self._names = ShardNames(_tables(cache, streams))
        self._stream_of = {id(reader.primary): number for number, reader in enumerate(streams)}
        self._num_streams = len(streams)
        self._row = run.row_after(0)
        self._known: tuple[frozenset[_Group], dict[str, float]] | None = None  # until readers move a step
        self._lock = threading.Lock()
        self._registered: RegisteredReader | None = None
        self._is_closed = False

    def moved(self, num_batches: int) -> None:
        """Record how many batches of the run were delivered; the first call registers this process."""
        self._row = self._run.row_after(min(num_batches, len(self._run)))
        with self._lock:
            if self._is_closed:
                return
            if self._registered is None:
                self._cache.next_uses = self
                with contextlib.suppress(HeadraceError, OSError):  # others then treat its files as unknown
                    self._registered = self._cache.register(self._facts)
            if self._registered is not None:
                self._registered.moved(self._run.epoch, self._row)

    def learn(self, access: ShardAccess, shard: int, name: str) -> None:
        """Remember the name of a shard in the cache."""
        if not access.is_named_by_content and id(access) in self._stream_of and access.cache is self._cache:
            self._names.learn(name, (self._stream_of[id(access)], shard))
            self._known = None

    def close(self) -> None:
        """End the registration."""
        with self._lock:
            self._is_closed = True
            if self._cache.next_uses is self:
                self._cache.next_uses = None
            if self._registered is not None:
                self._registered.close()
                self._registered = None

    def distances(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """See `NextUses.distances`: rows of the order until a reader needs each file."""
        others = readers(self._cache.folder)
        if any(self._is_unknown(reader) for reader in others):
            return None
        alike = [reader for reader in others if reader.facts.order == self._facts.order]
        at = [(one.epoch, one.row, World(one.facts.rank % one.facts.world_size, one.facts.world_size)) for one in alike]
        at.append((self._run.epoch, self._row, self._run.world))
        groups = _groups(at, self._orders.uses)
        kept = self._known  # another thread may learn a name meanwhile
        if kept is None or kept[0] != groups:
            self._known = kept = groups, {}
        known = kept[1]
        new = [name for name in names if name not in known]
        known.update(zip(new, self._distances(new, groups).tolist(), strict=True))
        return np.array([known[name] for name in names])

    def _distances(self, names: Sequence[str], groups: frozenset[_Group]) -> NDArray[np.float64]:
        found = [self._names.find(name) for name in names]
        places = [(place, *shard) for place, shards in enumerate(found) for shard in shards]
        columns = np.array(places, np.int64).reshape(-1, 3)
        of_stream = [columns[columns[:, 1] == stream] for stream in range(self._num_streams)]
        left = _distances([rows[:, 2] for rows in of_stream], groups, self._orders.uses)
        distances = np.full(len(names), np.nan)
        for rows, values in zip(of_stream, left, strict=True):
            distances[rows[:, 0]] = np.fmin(distances[rows[:, 0]], values)
        return distances

    def _is_unknown(self, reader: ReaderAt) -> bool:
        """Whether a process reads the same shards in another order."""
        facts = reader.facts
        return facts.order != self._facts.order and any(
            ours.overlaps(theirs) for ours in self._facts.data for theirs in facts.data
        )


class RunOrders:
    """The orders of the epochs of a run and of those after it."""

    def __init__(self, run: EpochRun, state: OrderState, order: Orders) -> None:
        """Compute nothing yet.

        Args:
            run: the run.
            state: a state of the run.
            order: the order of an epoch from its beginning.
        """
        self.digest = order_digest(state)
        self._run = run
        self._order = order
        self._uses: Recent[int, EpochUses] = Recent(_EPOCHS_KEPT)

    def uses(self, epoch: int) -> EpochUses:
        """The uses of shards in an epoch."""
        return self._uses.get(epoch, self._open)

    def _open(self, epoch: int) -> EpochUses:
        return EpochUses(self._run.order if epoch == self._run.epoch else self._order(epoch))


def order_digest(state: OrderState) -> str:
    """Digest of what the order of all epochs depends on; of an epoch whose mixture changed, also what changed."""
    spec = state.spec.to_json()
    if not state.spec.needs_global_batch:
        del spec["global_batch_size"]
    fields = state.to_json()
    has_changed = len(state.phases) > 1
    parts = [spec, [(one.name, *one.data) for one in state.streams], fields["phases"]]
    text = json.dumps([*parts, state.epoch if has_changed else None], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _slack(order: EpochOrder) -> int:
    """By how many rows length buckets move a sample."""
    buckets = order.spec.buckets
    if isinstance(buckets, LengthBuckets):
        return buckets.window_batches * order.spec.global_batch_size
    return 2 * buckets.window_samples if isinstance(buckets, FrameBudget) else 0


def _accesses(cache: ShardCache, reader: StreamReader) -> list[ShardAccess]:
    return [access for access in (reader.primary, *reader.joined) if access.cache is cache]


def _data(cache: ShardCache, streams: Sequence[StreamReader]) -> Iterable[ReadData]:
    for reader in streams:
        for access in _accesses(cache, reader):
            yield ReadData(access.shards.identity.uri, access.shards.identity.split)


def _tables(cache: ShardCache, streams: Sequence[StreamReader]) -> Iterable[tuple[int, NumberedShards, NumberedShards]]:
    for number, reader in enumerate(streams):
        own = numbered(reader.primary.shards.shards)
        for access in _accesses(cache, reader):
            shards = numbered(access.shards.shards)
            if own is not None and shards is not None:
                yield number, own, shards
