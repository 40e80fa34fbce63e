"""What comes next in a run: plans, and in their stead batches that are merely copied, opened several at a time.

Owns when that happens: while half of those that were opened last are left, by one thread; the others go on with these.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from headrace.streaming.batches.prepared import Prepared
from headrace.streaming.order.batch_plan import BatchPlan

Due: TypeAlias = BatchPlan | Prepared | BaseException
"""The next batch: its plan, or opened; or why it could not be planned."""


class Ahead:
    """The batches of a run, in order; safe for threads."""

    def __init__(
        self,
        plans: Iterator[BatchPlan],
        together: Callable[[Sequence[BatchPlan]], Sequence[Prepared] | None],
        rows_together: int,
    ) -> None:
        """Nothing is planned yet.

        Args:
            plans: the run.
            together: opens batches that are merely copied, as many of the first ones as it likes; None if it opens
                none. It must not raise.
            rows_together: of so many rows; less at the beginning, so that the first ones come soon.
        """
        self._plans = plans
        self._together = together
        self._rows_together = rows_together
        self._turn = threading.Lock()  # to plan and open
        self._planned: list[BatchPlan] = []  # and not opened
        self._due: deque[Due] = deque()
        self._num_opened = 0
        self._count = 1  # to open next

    def open_some(self) -> None:
        """Plan and open some if few are left, unless another thread does so."""
        if self._are_few and self._turn.acquire(blocking=False):
            try:
                if self._are_few:
                    self._open()
            finally:
                self._turn.release()

    def take(self) -> Due | None:
        """The next batch; None after the last. For one thread at a time."""
        if not self._due:
            with self._turn:
                if not self._due:
                    self._open()
        return self._due.popleft() if self._due else None

    @property
    def _are_few(self) -> bool:
        return 2 * len(self._due) <= self._count

    def _open(self) -> None:
        """As many more as there were so far."""
        error: BaseException | None = None
        try:
            self._planned += islice(self._plans, max(0, self._count - len(self._planned)))
        except BaseException as found:  # noqa: BLE001 - it is the next one's, which raises it
            error = found
        group = self._planned
        opened = (self._together(group) if len(group) > 1 else None) or group
        self._due.extend(opened)
        self._planned = group[len(opened) :]
        if error is not None:
            self._due += [*self._planned, error]
            self._planned, self._plans = [], iter(())
        if group:
            self._num_opened += len(opened)
            self._count = min(self._num_opened, max(1, self._rows_together // max(1, len(group[-1]))))
