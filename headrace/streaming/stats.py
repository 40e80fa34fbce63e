"""Counts how long a training loop waits for data and what the loader spends its time on, and warns if it waits much.

`LoaderStats` is what users read. `StageSeconds` counts the time of threads, `Traffic` what came from stores and caches,
`ConsumerMeter` the waits of the training loop.
"""

import contextlib
import operator
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from enum import StrEnum

from headrace.stores.requests import StoreRequests

_WARN_SHARE = 0.3
_WARN_AFTER_SECONDS = 30.0
_WARN_AFTER_BATCHES = 50


class Stage(StrEnum):
    """Work that threads and workers spend time on."""

    FETCH = "fetch"
    DECODE = "decode"


@dataclass(slots=True)
class StageSeconds:
    """Seconds that threads or workers spent on each stage, added up over all of them; safe for threads."""

    fetch_seconds: float = 0.0
    decode_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextlib.contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Count the time of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - start)

    def seconds(self) -> dict[Stage, float]:
        """Seconds of each stage."""
        with self._lock:
            return {Stage.FETCH: self.fetch_seconds, Stage.DECODE: self.decode_seconds}

    def add(self, stage: Stage, seconds: float) -> None:
        """Count seconds to a stage."""
        with self._lock:
            if stage is Stage.FETCH:
                self.fetch_seconds += seconds
            else:
                self.decode_seconds += seconds


@dataclass(frozen=True, slots=True)
class TrafficCounts:
    """One reading of `Traffic`; see `LoaderStats`. Readings add up, and their difference is what came in between."""

    cache_hits: int = 0
    cache_misses: int = 0
    num_bytes_needed: int = 0
    num_bytes_fetched: int = 0
    num_requests: int = 0
    num_retries: int = 0
    retry_seconds: float = 0.0

    def __add__(self, other: "TrafficCounts") -> "TrafficCounts":
        return TrafficCounts(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: "TrafficCounts") -> "TrafficCounts":
        return TrafficCounts(*map(operator.sub, astuple(self), astuple(other)))


class Traffic:
    """Counters of the data from stores and caches; safe for threads, and travels without its counts."""

    def __init__(self, requests: StoreRequests | None = None) -> None:
        """Count, beside what is reported here, the requests that are sent by `requests`."""
        self.requests = requests or StoreRequests()
        self._counts = TrafficCounts()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type["Traffic"], tuple[StoreRequests]]:
        """Travel with the requests, which stores share with it, and start at 0."""
        return type(self), (self.requests,)

    def hit(self) -> None:
        """A shard was in the cache when it was needed."""
        self.add(TrafficCounts(cache_hits=1))

    def missed(self) -> None:
        """A shard was not in the cache when it was needed."""
        self.add(TrafficCounts(cache_misses=1))

    def needed(self, num_bytes: int) -> None:
        """Bytes of shards were asked for."""
        self.add(TrafficCounts(num_bytes_needed=num_bytes))

    def add(self, counts: TrafficCounts) -> None:
        """Count what another process counted."""
        with self._lock:
            self._counts += counts

    def counts(self) -> TrafficCounts:
        """Counts so far, in this process and added to it."""
        sent = self.requests.counts()
        with self._lock:
            return self._counts + TrafficCounts(
                num_bytes_fetched=sent.num_bytes,
                num_requests=sent.num_requests,
                num_retries=sent.num_retries,
                retry_seconds=sent.retry_seconds,
            )


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """One reading of a loader's counters, over all its epochs.

    Attributes:
        num_batches: batches delivered.
        num_samples: samples delivered to this rank, without padding.
        num_bad_samples: samples that could not be read and were skipped.
        wait_seconds: time that the consumer waited in `next`.
        wait_share: the waits as a share of the time since the first `next`, from 0 to 1.
        fetch_seconds: time in opening shards and waiting for stores, added up over threads.
        decode_seconds: time in reading and decoding, added up over threads.
        cache_hits: shards that were in the cache when they were needed.
        cache_misses: shards that were not.
        num_bytes_needed: bytes of shards that were requested: single samples, and whole shards.
        num_bytes_fetched: bytes that came from stores for them, with those between samples of one request, and with
            indexes and lists of shards.
        num_requests: requests to stores, with failed ones and those for opening the data set.
        num_retries: requests that were sent again because a store failed.
        retry_seconds: time waited before them, added up over threads.
        samples_per_second: of this rank, since the first `next`.
    """

    num_batches: int = 0
    num_samples: int = 0
    num_bad_samples: int = 0
    wait_seconds: float = 0.0
    wait_share: float = 0.0
    fetch_seconds: float = 0.0
    decode_seconds: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    num_bytes_needed: int = 0
    num_bytes_fetched: int = 0
    num_requests: int = 0
    num_retries: int = 0
    retry_seconds: float = 0.0
    samples_per_second: float = 0.0


@dataclass(slots=True)
class ConsumerMeter:
    """Counts the batches that the consumer takes and its waits for them. For one thread."""

    num_batches: int = 0
    num_samples: int = 0
    num_bad_samples: int = 0
    wait_seconds: float = 0.0
    clock: Callable[[], float] = time.perf_counter
    _since: float | None = None
    _has_warned: bool = False

    def begin(self) -> float:
        """Start the wait timer. Returns the time, for `waited`."""
        now = self.clock()
        if self._since is None:
            self._since = now
        return now

    def waited(self, since: float) -> None:
        """Stop the wait timer."""
        self.wait_seconds += self.clock() - since

    def delivered(self, num_samples: int) -> None:
        """Count a batch."""
        self.num_batches += 1
        self.num_samples += num_samples

    @property
    def elapsed_seconds(self) -> float:
        """Since the first wait."""
        return 0.0 if self._since is None else self.clock() - self._since

    @property
    def wait_share(self) -> float:
        """Share of the elapsed time spent waiting."""
        elapsed = self.elapsed_seconds
        return self.wait_seconds / elapsed if elapsed else 0.0

    def warn_once(self, work: StageSeconds) -> None:
        """Warn once if the consumer waits much, and say which setting to raise."""
        if self._has_warned or self.num_batches < _WARN_AFTER_BATCHES or self.elapsed_seconds < _WARN_AFTER_SECONDS:
            return
        if self.wait_share < _WARN_SHARE:
            return
        self._has_warned = True
        if work.fetch_seconds > work.decode_seconds:
            advice = "most of it on fetching: raise predownload, or put the cache (local=) on a faster disk"
        else:
            advice = (
                "most of it on decoding: raise num_threads or num_workers, give this process more cores, "
                "or compile the FLAC decoder for its processor (docs/scaling.md)"
            )
        warnings.warn(
            f"the training loop spends {self.wait_share:.0%} of its time waiting for data, {advice}", stacklevel=3
        )
