"""Downloads shards before they are needed; which ones these are follows from the order.

Each rank has one `Prefetcher` with its own download threads. No reader waits for it: if a download fails, the reader
that needs the shard fetches it or reports the error. It is not a `lookahead.LookAhead`, whose results are taken one by
one and in order: one download serves many batches, and may end in any order.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from headrace.errors import HeadraceError
from headrace.streaming.cache.cache import CacheFullError
from headrace.streaming.concurrency.parallel import WorkThreads
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING
from headrace.streaming.run.epochs import EpochRun, WorkerShare
from headrace.streaming.run.next_uses import FolderUses
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.shards.access import ShardAccess

_Shard: TypeAlias = tuple[ShardAccess, int]

_NUM_DOWNLOADS = 4
_UNDER_WAY = 4  # batches that are already being read
_BATCHES_AT_ONCE = 64  # planned for each delivered one, as the first batches of a run need the processor as well
_OWN_BATCHES = 8  # least number of a worker's own batches to plan ahead: the horizon may hold none of them
_NEVER = -1


class Prefetcher:
    """Keeps the shards of the next `horizon` batches of a run, and of at least 8 of the share's, in the cache.

    Downloads wait for `begin`, since they would share the connection with the first batch, which is read by ranges.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - of one caller
        self,
        readers: Sequence[StreamReader],
        run: EpochRun,
        share: WorkerShare,
        horizon: int,
        start: int = 0,
        uses: Sequence[FolderUses] = (),
    ) -> None:
        """Begin at batch `start` of the run; `uses` are informed of the progress, and closed at the end."""
        self._readers = readers
        self._share = share
        self._run = run
        self._uses = uses
        self._horizon = max(horizon, _OWN_BATCHES * share.stride)
        self._lock = threading.Lock()
        self._last_need: dict[_Shard, int] = {}
        self._names: dict[_Shard, str] = {}  # in the cache
        self._columns: dict[tuple[int, int], int] = {}  # stream and shard, and the last batch that needs its columns
        self._postponed: dict[_Shard, int] = {}  # shards without room in the cache, and the first batch that needs each
        self._num_behind = 0
        self._planned = start
        self._failed = _NEVER  # the batch whose plan failed the last time
        self._delivered = start
        self._is_closed = False
        self._held: list[tuple[_Shard, int]] | None = []  # downloads that wait for `begin`
        self._planner = WorkThreads(1, "plan")
        self._threads = WorkThreads(_NUM_DOWNLOADS, "download")
        self._planner.submit(self._look_ahead)

    def begin(self) -> None:
        """Start to download: once the first batch is there, or at once if the connection is idle until then."""
        with self._lock:
            held, self._held = self._held, None
        for shard, first in held or ():
            self._threads.submit(self._fetching(shard, first, is_late=True), first)

    def delivered(self, index: int) -> None:
        """Record that the consumer has batch `index` of the run: shards that later batches do not need are released."""
        self.begin()
        self._delivered = index + 1
        self._planner.submit(self._look_ahead)

    def close(self) -> None:
        """End the threads. A download under way finishes, or ends with the process."""
        self._is_closed = True
        self._planner.close(0.1)
        self._threads.close(0.1)
        for uses in self._uses:
            uses.close()

    def _look_ahead(self) -> None:
        for uses in self._uses:
            uses.moved(self._delivered)
        self._plan_ahead()
        self._leave_behind()

    def _plan_ahead(self) -> None:
        """Plan the next batches. One that fails is tried again at the next delivery, then left to its readers."""
        start = max(self._planned, self._delivered)
        most = start + _BATCHES_AT_ONCE * self._share.stride
        for index in self._share.numbers(start, min(self._delivered + self._horizon, most, len(self._run))):
            if self._is_closed:
                return
            try:
                self._want(index, self._run.peek(index))
            except Exception:  # noqa: BLE001 - this thread must continue; the reader of the batch raises the error
                if self._failed != index:
                    self._failed = index
                    return
            self._planned = index + 1

    def _leave_behind(self) -> None:
        with self._lock:
            self._columns = {key: last for key, last in self._columns.items() if last >= self._delivered}
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
            samples = plan.rows.sample_ids[np.flatnonzero(chosen)]
            self._want_columns(index, number, reader.shards_with_columns(samples))
            for access, shard in reader.shards_of(samples):
                key = access, shard
                with self._lock:
                    is_new = key not in self._last_need
                    self._last_need[key] = index
                if is_new and access.in_place(shard) is None:
                    if access.is_named_by_content:  # else the name needs the index, which is read later
                        self._names[key] = access.cache_name(shard)
                        access.expect(shard)
                    self._submit(key, index)

    def _want_columns(self, index: int, stream: int, shards: Sequence[int]) -> None:
        for shard in shards:
            with self._lock:
                is_new = (stream, shard) not in self._columns
                self._columns[stream, shard] = index
            if is_new:
                self._threads.submit(self._fetching_columns(stream, shard), index)

    def _fetching_columns(self, stream: int, shard: int) -> Callable[[], None]:
        def fetch() -> None:
            columns = self._readers[stream].columns
            if not self._is_closed and columns is not None:
                with contextlib.suppress(HeadraceError):  # the reader that needs them tries again and raises the error
                    columns.fetch(shard)

        return fetch

    def _submit(self, shard: _Shard, first: int) -> None:
        """Queue the download of a shard before those that are first needed after batch `first`."""
        with self._lock:
            if self._held is not None:
                self._held.append((shard, first))
                return
        self._threads.submit(self._fetching(shard, first), first)

    def _fetching(self, shard: _Shard, first: int, *, is_late: bool = False) -> Callable[[], None]:
        return lambda: self._fetch(shard, first, is_late=is_late)

    def _fetch(self, shard: _Shard, first: int, *, is_late: bool) -> None:
        """Download a shard, unless it is no longer needed; one whose download was held back serves later epochs."""
        if self._is_closed or (not is_late and self._last_need.get(shard, _NEVER) < self._delivered):
            return
        access, number = shard
        num_behind = self._num_behind
        try:
            name = self._names.setdefault(shard, access.cache_name(number))
            for uses in self._uses:
                uses.learn(access, number, name)
            access.fetch(number, self._needed())
        except CacheFullError:  # there is room when the shards in use are released
            with self._lock:
                self._postponed[shard] = first
            if self._num_behind == num_behind:
                return
        except Exception:  # noqa: BLE001 - the reader that needs the shard tries again and raises the error
            return
        self._try_again()

    def _try_again(self) -> None:
        """Fetch the first needed of the shards that had no room; after a success, the next one follows."""
        with self._lock:
            self._postponed = {shard: n for shard, n in self._postponed.items() if shard in self._last_need}
            soon = self._delivered + _UNDER_WAY * self._share.stride
            later = [item for item in self._postponed.items() if self._last_need[item[0]] >= soon]
            if not later:  # readers read from the other shards by ranges
                return
            shard, first = min(later, key=lambda item: item[1])
            del self._postponed[shard]
        self._submit(shard, first)

    def _needed(self) -> set[str]:
        """Names of the shards that must not be evicted."""
        with self._lock:
            return {self._names[shard] for shard in self._last_need if shard in self._names}
