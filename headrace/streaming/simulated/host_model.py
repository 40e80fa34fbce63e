"""Simulates one host of a training job: a cache, a network link to the store, and batches that need shards.

It applies the rules of `prefetch`, `access`, `cache` and `eviction` to the batches of a host, without reading anything.
`simulation` computes which shards the batches need.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.arguments import convert, number, optional, whole


@dataclass(frozen=True, slots=True)
class ShardSize:
    """Size of a shard, and its number of samples."""

    num_bytes: int
    num_samples: int


Need = tuple[int, int]
"""Index of a shard in `HostNeeds.shards`, and the number of its samples in a batch."""


NextUsesAt = Callable[[int], NDArray[np.float64]]
"""Distance to the next use of every shard of `HostNeeds.shards` at a batch, float64 (n,), in any unit."""


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """The shards that the ranks of one host need, batch by batch.

    Attributes:
        shards: every shard that is needed.
        batches: for each batch the shards it needs, each shard once.
        num_epochs: number of epochs in which these batches are, each with equally many.
    """

    shards: Sequence[ShardSize]
    batches: Sequence[Sequence[Need]]
    num_epochs: int = 1

    def sample_bytes(self, need: Need) -> int:
        """Bytes of only these samples, by the mean size of a sample of the shard."""
        shard, count = need
        return self.shards[shard].num_bytes * count // self.shards[shard].num_samples


@dataclass(frozen=True, slots=True)
class Host:
    """Resources and settings of a host.

    Attributes:
        horizon: how many batches ahead shards are downloaded.
        cold_batches: number of the first batches that do not wait for shards but read their samples by ranges.
        cache_limit_bytes: limit of its cache; None for no limit.
        bytes_per_second: rate of its link to the store; None for no limit.
        step_seconds: time of a training step.
    """

    horizon: int
    cold_batches: int = 4
    cache_limit_bytes: int | None = None
    bytes_per_second: float | None = None
    step_seconds: float = 0.0

    def __post_init__(self) -> None:
        convert(self, whole, "horizon", "cold_batches", least=0)
        convert(self, optional(whole), "cache_limit_bytes", least=1)
        convert(self, optional(number), "bytes_per_second")
        convert(self, number, "step_seconds", least=0)


@dataclass(frozen=True, slots=True)
class HostUsage:
    """Shards, bytes and time that the batches of one host take.

    Attributes:
        shards_per_batch: mean number of shards of a batch.
        num_shards: different shards over all batches.
        num_bytes: size of these shards.
        working_set_bytes: largest size of a cache that evicts each shard right after its last use in an epoch.
        num_bytes_downloaded: bytes of whole shards, each as often as it was downloaded.
        num_bytes_again: part of `num_bytes_downloaded` for shards that had been evicted before.
        num_bytes_ranged: bytes read by ranges, in a cold start and when the cache had no room.
        first_batch_seconds: wait for the first batch.
        wait_seconds: wait for all batches, the first included.
        seconds: waits and steps.
    """

    shards_per_batch: float
    num_shards: int
    num_bytes: int
    working_set_bytes: int
    num_bytes_downloaded: int
    num_bytes_again: int
    num_bytes_ranged: int
    first_batch_seconds: float
    wait_seconds: float
    seconds: float

    @property
    def num_bytes_fetched(self) -> int:
        """All bytes that came from the store."""
        return self.num_bytes_downloaded + self.num_bytes_ranged

    @property
    def wait_share(self) -> float:
        """Share of the time that the host waits, from 0 to 1; 0 if no time passes."""
        return self.wait_seconds / self.seconds if self.seconds else 0.0


def play(needs: HostNeeds, host: Host, next_uses: NextUsesAt | None = None) -> HostUsage:
    """Simulate the batches of a host, one step after the other.

    The cache evicts the shards that are needed last, or without `next_uses` those that were used first.

    The link is one queue: downloads follow each other, and samples read by ranges delay later downloads. After the
    first batches, a batch waits for whole shards that are being downloaded; a real one may read some samples by ranges.
    """
    cache, line = _Cache(needs.shards, host, next_uses), _Line(host.bytes_per_second)
    clock = waited = first = 0.0
    ranged = downloaded = again = 0
    fetched: set[int] = set()
    ahead = _ahead(needs, host.horizon)
    for index, batch in enumerate(needs.batches):
        for shard in cache.arriving(index, next(ahead)):
            num_bytes = needs.shards[shard].num_bytes
            downloaded += num_bytes
            again += num_bytes if shard in fetched else 0
            fetched.add(shard)
            cache.arrives(shard, line.queued(clock, num_bytes))
        by_ranges, ready = 0, clock
        for need in batch:
            arrival = cache.arrival(need[0])
            if arrival is None or (index < host.cold_batches and arrival > clock):
                by_ranges += needs.sample_bytes(need)
            else:
                ready = max(ready, arrival)
        ranged += by_ranges
        ready = max(ready, line.at_once(clock, by_ranges))
        waited += ready - clock
        first = first if index else ready
        clock = ready + host.step_seconds
    seen = {shard for batch in needs.batches for shard, _ in batch}
    return HostUsage(
        shards_per_batch=sum(map(len, needs.batches)) / max(1, len(needs.batches)),
        num_shards=len(seen),
        num_bytes=sum(needs.shards[shard].num_bytes for shard in seen),
        working_set_bytes=working_set_bytes(needs, host.horizon),
        num_bytes_downloaded=downloaded,
        num_bytes_again=again,
        num_bytes_ranged=ranged,
        first_batch_seconds=first,
        wait_seconds=waited,
        seconds=clock,
    )


def working_set_bytes(needs: HostNeeds, horizon: int) -> int:
    """Largest size of a cache that fetches each shard at the horizon, and evicts it after its last use in the epoch."""
    size = max(1, len(needs.batches) // needs.num_epochs)
    starts = range(0, len(needs.batches), size)
    return max((_working_set(needs, needs.batches[at : at + size], horizon) for at in starts), default=0)


def _working_set(needs: HostNeeds, batches: Sequence[Sequence[Need]], horizon: int) -> int:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, batch in enumerate(batches):
        for shard, _ in batch:
            first.setdefault(shard, index)
            last[shard] = index
    change = [0] * (len(batches) + 1)
    for shard, index in first.items():
        change[max(0, index + 1 - max(1, horizon))] += needs.shards[shard].num_bytes
        change[last[shard] + 1] -= needs.shards[shard].num_bytes
    most = held = 0
    for difference in change:
        held += difference
        most = max(most, held)
    return most


def _ahead(needs: HostNeeds, horizon: int) -> Iterator[list[tuple[int, int]]]:
    """For each batch, the (batch, shard) pairs that newly come within the horizon, in the order of use."""
    seen = 0
    for index in range(len(needs.batches)):
        stop = min(index + max(1, horizon), len(needs.batches))
        yield [(later, shard) for later in range(seen, stop) for shard, _ in needs.batches[later]]
        seen = max(seen, stop)


class _Line:
    """The network link of a host to the store."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def queued(self, now: float, num_bytes: int) -> float:
        """Time at which a download that is requested now is complete."""
        self._free_at = max(now, self._free_at) + self._seconds(num_bytes)
        return self._free_at

    def at_once(self, now: float, num_bytes: int) -> float:
        """Time at which bytes that do not queue have arrived."""
        self._free_at = max(now, self._free_at) + self._seconds(num_bytes)
        return now + self._seconds(num_bytes)

    def _seconds(self, num_bytes: int) -> float:
        return 0.0 if self._bytes_per_second is None else num_bytes / self._bytes_per_second


class _Cache:
    """Shards in the cache or being downloaded; evicts none needed within the horizon."""

    def __init__(self, shards: Sequence[ShardSize], host: Host, next_uses: NextUsesAt | None) -> None:
        self._shards = shards
        self._limit = host.cache_limit_bytes
        self._next_uses = next_uses
        self._arrivals: dict[int, float] = {}
        self._is_here = np.zeros(len(shards), np.bool_)
        self._last_need = np.full(len(shards), -1, np.int64)
        self._distances: tuple[int, NDArray[np.float64]] | None = None
        self._queue: list[int] = []
        self._num_bytes = 0

    def arrival(self, shard: int) -> float | None:
        """Time at which a shard arrived or will arrive; None if it is not being downloaded."""
        return self._arrivals.get(shard)

    def arrives(self, shard: int, when: float) -> None:
        """Record the time at which a shard arrives."""
        self._arrivals[shard] = when
        self._is_here[shard] = True

    def arriving(self, index: int, in_sight: Sequence[tuple[int, int]]) -> Iterator[int]:
        """The shards to download before batch `index`, in order; room is made for each."""
        for batch, shard in in_sight:
            if shard not in self._arrivals and self._last_need[shard] < index:
                self._queue.append(shard)
            self._last_need[shard] = batch
        waiting, self._queue = self._queue, []
        for shard in waiting:
            if shard in self._arrivals or self._last_need[shard] < index:
                continue
            if self._make_room(self._shards[shard].num_bytes, index):
                yield shard
            else:
                self._queue.append(shard)

    def _make_room(self, num_bytes: int, index: int) -> bool:
        """Reserve room for a shard; False if shards within the horizon need it."""
        if self._limit is None:
            return True
        while self._num_bytes + num_bytes > self._limit and (shard := self._victim(index)) is not None:
            del self._arrivals[shard]
            self._is_here[shard] = False
            self._num_bytes -= self._shards[shard].num_bytes
        if self._num_bytes + num_bytes > self._limit:
            return False
        self._num_bytes += num_bytes
        return True

    def _victim(self, index: int) -> int | None:
        """The shard to evict at batch `index`: of those that are needed equally late the least recently used."""
        idle = np.flatnonzero(self._is_here & (self._last_need < index))
        if not len(idle):
            return None
        if self._next_uses is not None:
            if self._distances is None or self._distances[0] != index:
                self._distances = index, self._next_uses(index)
            distances = self._distances[1][idle]
            idle = idle[distances == distances.max()]
        return int(idle[self._last_need[idle].argmin()])
