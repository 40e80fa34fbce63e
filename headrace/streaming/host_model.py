"""One host of a training job on paper: a cache, a line to the store, and batches that need shards.

Owns the arithmetic of what `headrace.simulate` tells: it plays a host's batches against the rules that `prefetch`,
`access` and `cache` follow, without reading anything. Must not know where the shards that a batch needs come from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from headrace.streaming.checks import convert, number, optional, whole


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as stored: its size, and how many samples share it."""

    num_bytes: int
    num_samples: int


Need = tuple[int, int]
"""A shard, by its place in `Needs.shards`, and how many of its samples a batch takes."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What the ranks of one host need, batch by batch.

    Attributes:
        shards: every shard that is needed.
        batches: of each batch its needs, each shard once.
    """

    shards: Sequence[Shard]
    batches: Sequence[Sequence[Need]]

    def sample_bytes(self, need: Need) -> int:
        """What it takes to read just these samples, by the shard's mean."""
        shard, count = need
        return self.shards[shard].num_bytes * count // self.shards[shard].num_samples


@dataclass(frozen=True, slots=True)
class Host:
    """What a host has.

    Attributes:
        horizon: how many batches ahead shards are downloaded.
        cold_batches: how many of the first batches do not wait for shards, but read their samples by ranges.
        cache_limit_bytes: of its cache; None for none.
        bytes_per_second: what the store gives it; None for as much as it takes.
        step_seconds: from one batch to the next if none is waited for.
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
class Use:
    """What the batches of one host ask of it.

    Attributes:
        shards_per_batch: shards that a batch draws from, the mean over batches.
        num_shards: different shards over all batches.
        num_bytes: their size.
        working_set_bytes: the most that a cache holds if each shard goes right after its last need.
        num_bytes_downloaded: whole shards, each as often as it was downloaded.
        num_bytes_again: of these, what had been there before, and had to make room.
        num_bytes_ranged: read sample by sample, in a cold start and where the cache had no room.
        first_batch_seconds: wait for the first batch.
        wait_seconds: waits for all batches, the first included.
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
        """What came over the line."""
        return self.num_bytes_downloaded + self.num_bytes_ranged

    @property
    def wait_share(self) -> float:
        """Of the time, from 0 to 1, that the host waits; 0 where no time passes."""
        return self.wait_seconds / self.seconds if self.seconds else 0.0


def play(needs: Needs, host: Host) -> Use:
    """Play a host's batches, one step after the other.

    The line is one queue: downloads follow each other, and samples read by ranges push back what is asked for later.
    But for the first batches, one waits for whole shards where these are on their way; in truth it might read some of
    its samples by ranges meanwhile.
    """
    cache, line = _Cache(needs.shards, host), _Line(host.bytes_per_second)
    clock = waited = first = 0.0
    ranged = downloaded = again = 0
    brought: set[int] = set()
    ahead = _ahead(needs, host.horizon)
    for index, batch in enumerate(needs.batches):
        for shard in cache.arriving(index, next(ahead)):
            num_bytes = needs.shards[shard].num_bytes
            downloaded += num_bytes
            again += num_bytes if shard in brought else 0
            brought.add(shard)
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
    return Use(
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


def working_set_bytes(needs: Needs, horizon: int) -> int:
    """The most that lies in a cache at a time if each shard comes when it is in sight, and goes after its last need."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, batch in enumerate(needs.batches):
        for shard, _ in batch:
            first.setdefault(shard, index)
            last[shard] = index
    change = [0] * (len(needs.batches) + 1)
    for shard, index in first.items():
        change[max(0, index + 1 - max(1, horizon))] += needs.shards[shard].num_bytes
        change[last[shard] + 1] -= needs.shards[shard].num_bytes
    most = held = 0
    for difference in change:
        held += difference
        most = max(most, held)
    return most


def _ahead(needs: Needs, horizon: int) -> Iterator[list[tuple[int, int]]]:
    """Before each batch, the batches and shards that come into sight: (batch, shard) in the order of need."""
    seen = 0
    for index in range(len(needs.batches)):
        stop = min(index + max(1, horizon), len(needs.batches))
        yield [(later, shard) for later in range(seen, stop) for shard, _ in needs.batches[later]]
        seen = max(seen, stop)


class _Line:
    """A host's line to the store."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def queued(self, now: float, num_bytes: int) -> float:
        """When a download that is asked for now has come."""
        self._free_at = max(now, self._free_at) + self._seconds(num_bytes)
        return self._free_at

    def at_once(self, now: float, num_bytes: int) -> float:
        """When bytes that do not queue have come."""
        self._free_at = max(now, self._free_at) + self._seconds(num_bytes)
        return now + self._seconds(num_bytes)

    def _seconds(self, num_bytes: int) -> float:
        return 0.0 if self._bytes_per_second is None else num_bytes / self._bytes_per_second


class _Cache:
    """Which shards are there or on their way; the least recently used go, but none that a batch in sight needs."""

    def __init__(self, shards: Sequence[Shard], host: Host) -> None:
        self._shards = shards
        self._limit = host.cache_limit_bytes
        self._arrivals: dict[int, float] = {}
        self._last_need: dict[int, int] = {}
        self._idle: list[tuple[int, int]] = []  # a heap of (last need, shard), also of needs that were not the last
        self._queue: list[int] = []
        self._num_bytes = 0

    def arrival(self, shard: int) -> float | None:
        """When a shard has come, or will have; None if it is not on its way."""
        return self._arrivals.get(shard)

    def arrives(self, shard: int, when: float) -> None:
        """A shard that there is room for comes at that time."""
        self._arrivals[shard] = when

    def arriving(self, index: int, in_sight: Sequence[tuple[int, int]]) -> Iterator[int]:
        """The shards to download before batch `index`, in turn, after room was made for each."""
        for batch, shard in in_sight:
            if shard not in self._arrivals and self._last_need.get(shard, -1) < index:
                self._queue.append(shard)
            self._last_need[shard] = batch
            heappush(self._idle, (batch, shard))
        waiting, self._queue = self._queue, []
        for shard in waiting:
            if shard in self._arrivals or self._last_need[shard] < index:
                continue
            if self._make_room(self._shards[shard].num_bytes, index):
                yield shard
            else:
                self._queue.append(shard)

    def _make_room(self, num_bytes: int, index: int) -> bool:
        """Take room for a shard; False if what is in sight needs it."""
        if self._limit is None:
            return True
        while self._num_bytes + num_bytes > self._limit and self._idle and self._idle[0][0] < index:
            last, shard = heappop(self._idle)
            if self._last_need[shard] == last and shard in self._arrivals:
                del self._arrivals[shard]
                self._num_bytes -= self._shards[shard].num_bytes
        if self._num_bytes + num_bytes > self._limit:
            return False
        self._num_bytes += num_bytes
        return True
