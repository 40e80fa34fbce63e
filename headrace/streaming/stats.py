"""What a training loop can ask of its loader: does the accelerator starve, and on what?

Owns counters and the one warning. It changes nothing.
"""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

_WARN_SHARE = 0.3
_WARN_AFTER_SECONDS = 30.0
_WARN_AFTER_BATCHES = 50


class Stage(StrEnum):
    """What threads and workers spend time on."""

    FETCH = "fetch"
    DECODE = "decode"


@dataclass(slots=True)
class Work:
    """Seconds that threads (or workers) spent, added up over all of them; safe for threads."""

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


@dataclass(slots=True)
class Traffic:
    """What came from stores and caches; safe for threads."""

    cache_hits: int = 0
    cache_misses: int = 0
    num_bytes_fetched: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def hit(self) -> None:
        """A shard was in the cache when it was needed."""
        with self._lock:
            self.cache_hits += 1

    def missed(self) -> None:
        """A shard was not in the cache when it was needed."""
        with self._lock:
            self.cache_misses += 1

    def add(self, hits: int, misses: int, num_bytes: int) -> None:
        """Count what another process counted."""
        with self._lock:
            self.cache_hits += hits
            self.cache_misses += misses
            self.num_bytes_fetched += num_bytes

    def counts(self) -> tuple[int, int, int]:
        """Hits, misses and bytes."""
        with self._lock:
            return self.cache_hits, self.cache_misses, self.num_bytes_fetched

    def fetched(self, num_bytes: int) -> None:
        """Bytes came from a store."""
        with self._lock:
            self.num_bytes_fetched += num_bytes


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """One reading of a loader's counters, over all its epochs.

    Attributes:
        num_batches: batches delivered.
        num_samples: samples delivered to this rank, padding not counted.
        num_bad_samples: samples that could not be read and were skipped.
        wait_seconds: time that the consumer waited in `next`.
        wait_share: of the time between the first `next` and now, from 0 to 1.
        fetch_seconds: time in opening shards and waiting for stores, added up over threads.
        decode_seconds: time in reading and decoding, added up over threads.
        cache_hits: shards that were in the cache when they were needed.
        cache_misses: shards that were not.
        num_bytes_fetched: bytes that came from stores, whole shards and ranges.
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
    num_bytes_fetched: int = 0
    samples_per_second: float = 0.0


@dataclass(slots=True)
class Meter:
    """The consumer's side of the counters: used by one thread."""

    num_batches: int = 0
    num_samples: int = 0
    num_bad_samples: int = 0
    wait_seconds: float = 0.0
    clock: Callable[[], float] = time.perf_counter
    _since: float | None = None
    _has_warned: bool = False

    def begin(self) -> float:
        """The consumer begins to wait: the time, for `waited`."""
        now = self.clock()
        if self._since is None:
            self._since = now
        return now

    def waited(self, since: float) -> None:
        """It has what it waited for."""
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

    def warn_once(self, work: Work) -> None:
        """Say once that the consumer starves, and which setting to raise."""
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
