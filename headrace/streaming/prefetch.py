"""Downloading shards before they are needed: the order says which ones those are.

Owns the look-ahead of one rank and its download threads. It never makes a reader wait, and what it fails to bring is
fetched, or reported, by the reader that needs it.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from headrace.streaming.batches.rows import StreamReader
from headrace.streaming.epochs import EpochRun, Share
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING
from headrace.streaming.parallel import WorkThreads
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.cache import CacheFullError

_Shard: TypeAlias = tuple[ShardAccess, int]

_NUM_DOWNLOADS = 4
_UNDER_WAY = 4  # batches that are being read already
_BATCHES_AT_ONCE = 64  # looked at for each one delivered: a run's first batches need the processor, too
_OWN_BATCHES = 8  # a worker of several looks at least as far, or it would find none of its own within the horizon
_NEVER = -1


class Prefetcher:
    """Keeps the shards of the next `horizon` batches of a run, and of at least 8 of the share's, in the cache."""

    def __init__(
        self, readers: Sequence[StreamReader], run: EpochRun, share: Share, horizon: int, start: int = 0
    ) -> None:
        """Begin at batch `start` of the run."""
        self._readers = readers
        self._share = share
        self._run = run
        self._horizon = max(horizon, _OWN_BATCHES * share.stride)
        self._lock = threading.Lock()
        self._last_need: dict[_Shard, int] = {}
        self._names: dict[_Shard, str] = {}  # in the cache
        self._postponed: dict[_Shard, int] = {}  # what found no room, and which batch needed it first
        self._num_behind = 0
        self._planned = start
        self._failed = _NEVER  # the batch that could not be looked at the last time
        self._delivered = start
        self._is_closed = False
        self._planner = WorkThreads(1, "plan")
        self._threads = WorkThreads(_NUM_DOWNLOADS, "download")
        self._planner.submit(self._look_ahead)

    def delivered(self, index: int) -> None:
        """The consumer has batch `index` of the run: what lies behind it is needed no more."""
        self._delivered = index + 1
        self._planner.submit(self._look_ahead)

    def close(self) -> None:
        """End the threads; a download under way is dropped with its process or finishes by itself."""
        self._is_closed = True
        self._planner.close(0.1)
        self._threads.close(0.1)

    def _look_ahead(self) -> None:
        self._plan_ahead()
        self._leave_behind()

    def _plan_ahead(self) -> None:
        """Look at the next batches. One that fails is tried again at the next delivery, then left to its readers."""
        start = max(self._planned, self._delivered)
        most = start + _BATCHES_AT_ONCE * self._share.stride
        for index in self._share.numbers(start, min(self._delivered + self._horizon, most, len(self._run))):
            if self._is_closed:
                return
            try:
                self._want(index, self._run.peek(index))
            except Exception:  # noqa: BLE001 - this thread must go on; whoever needs the batch says what is wrong
                if self._failed != index:
                    self._failed = index
                    return
            self._planned = index + 1

    def _leave_behind(self) -> None:
        with self._lock:
            behind = [shard for shard, last in self._last_need.items() if last < self._delivered]
            for shard in behind:
                del self._last_need[shard]
                self._names.pop(shard, None)
            self._num_behind += len(behind)
        for access, number in behind:
            access.let_go(number)
        if behind:
            self._try_again()

    def _want(self, index: int, plan: BatchPlan) -> None:
        for number, reader in enumerate(self._readers):
            chosen = (plan.rows.stream_ids == number) & (plan.rows.sample_ids != PADDING)
            for access, shard in reader.shards_of(plan.rows.sample_ids[np.flatnonzero(chosen)]):
                key = access, shard
                with self._lock:
                    is_new = key not in self._last_need
                    self._last_need[key] = index
                if is_new and access.in_place(shard) is None:
                    if access.is_named_by_content:  # else naming it takes its index, so it waits for its turn
                        self._names[key] = access.cache_name(shard)
                    self._submit(key, index)

    def _submit(self, shard: _Shard, first: int) -> None:
        """Have a shard brought, before those that batches after `first` need first."""
        self._threads.submit(self._bringing(shard, first), first)

    def _bringing(self, shard: _Shard, first: int) -> Callable[[], None]:
        return lambda: self._bring(shard, first)

    def _bring(self, shard: _Shard, first: int) -> None:
        if self._is_closed or self._last_need.get(shard, _NEVER) < self._delivered:  # it lies behind
            return
        access, number = shard
        num_behind = self._num_behind
        try:
            self._names.setdefault(shard, access.cache_name(number))
            access.bring(number, self._needed())
        except CacheFullError:  # there will be room once what is in use lies behind
            with self._lock:
                self._postponed[shard] = first
            if self._num_behind == num_behind:
                return
        except Exception:  # noqa: BLE001 - whoever needs it tries by itself and says what is wrong
            return
        self._try_again()

    def _try_again(self) -> None:
        """Bring what is needed first of what found no room; where that succeeds, the next of it follows."""
        with self._lock:
            self._postponed = {shard: n for shard, n in self._postponed.items() if shard in self._last_need}
            soon = self._delivered + _UNDER_WAY * self._share.stride
            later = [item for item in self._postponed.items() if self._last_need[item[0]] >= soon]
            if not later:  # of the others, readers take what they need by ranges
                return
            shard, first = min(later, key=lambda item: item[1])
            del self._postponed[shard]
        self._submit(shard, first)

    def _needed(self) -> set[str]:
        """Names that must not be evicted for others that are needed later."""
        with self._lock:
            return {self._names[shard] for shard in self._last_need if shard in self._names}
