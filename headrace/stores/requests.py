"""Sends requests to stores: repeats those that fail, counts them, and logs an outage once.

A store that is opened with a `Transfer`, as by loaders, sends each request once (obstore's own retries are off) and
raises `StoreUnavailableError` for failures that may pass; its requests are repeated here and nowhere else.
`retry_policy` decides how long to wait. A store that is opened without a `Transfer`, as by builds, leaves retries to
obstore alone. Objects that arrive damaged are downloaded again by `refetch`.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import SystemRandom
from typing import NamedTuple, TypeVar

from headrace.errors import HeadraceError, StoreUnavailableError
from headrace.stores.retry_after import STATUSES
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.waiting import wait

T = TypeVar("T")

_log = logging.getLogger(__name__)
_QUIET_SECONDS = 60.0  # at most one log line in this time for a store in which single requests fail
_ASKING_SECONDS = 5.0  # between two requests that ask a store how long to wait


class RequestCounts(NamedTuple):
    """Counts of requests to stores.

    Attributes:
        num_requests: requests that were sent, failed ones included.
        num_bytes: bytes received.
        num_retries: requests that were sent again.
        retry_seconds: time waited before them, summed over threads.
    """

    num_requests: int = 0
    num_bytes: int = 0
    num_retries: int = 0
    retry_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and random numbers, which tests replace.

    Attributes:
        now: monotonic seconds.
        wait: waits this many seconds; returns False if the result is no longer wanted.
        draw: a random number in [0, 1), from the system, so that forked processes draw different ones.
    """

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], bool] = wait
    draw: Callable[[], float] = SystemRandom().random


@dataclass(slots=True)
class _Outage:
    """The state of one store while requests to it fail.

    Attributes:
        num_failing: requests that are being repeated.
        since: when the first of them failed.
        num_repeated: requests that were sent again since then.
        is_over: whether the last request that got an answer, or was given up, got one.
        is_logged: whether the log says that the store fails.
        logged: when the log last said so.
        asked: when the store was last asked how long to wait.
        closed_until: end of the wait that the store asked for.
    """

    num_failing: int = 0
    since: float = 0.0
    num_repeated: int = 0
    is_over: bool = False
    is_logged: bool = False
    logged: float = float("-inf")
    asked: float = float("-inf")
    closed_until: float = float("-inf")


@dataclass(slots=True)
class _ProcessState:
    """The state of one process: a forked process must not inherit a lock that another thread holds."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: RequestCounts = field(default_factory=RequestCounts)
    outages: dict[str, _Outage] = field(default_factory=dict)


class StoreRequests:
    """Sends requests until they succeed or retries end; safe for threads. Counters start at 0 in each process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._processes: dict[int, _ProcessState] = {}

    def __reduce__(self) -> tuple[type["StoreRequests"], tuple[()]]:
        """Pickle without counters."""
        return type(self), ()

    def counts(self) -> RequestCounts:
        """The counts so far."""
        with (here := self._here).lock:
            return here.counts

    def received(self, num_bytes: int) -> None:
        """Count bytes received from a store."""
        self._count(num_bytes=num_bytes)

    def done(
        self,
        request: Callable[[], T],
        retries: RetryPolicy,
        store: str,
        what: str,
        ask: Callable[[], float | None] = lambda: None,
    ) -> T:
        """The result of `request`, sent again while it raises `StoreUnavailableError`.

        Args:
            request: sends the request once.
            retries: how often, or for how long, to retry.
            store: name of the store, which the log says fails or recovers.
            what: name of the object, for messages.
            ask: asks the store how many seconds to wait; called now and then, after a status 429 or 503.

        Raises:
            StoreUnavailableError: every attempt failed; the message has `what`, the time and the number of attempts.
        """
        try:
            self._count(num_requests=1)
            return request()
        except StoreUnavailableError as error:
            failure = error
        try:
            return self._repeated(request, failure, retries, (store, what), ask)
        finally:
            del failure  # its traceback holds this frame, which would hold it

    def _repeated(
        self,
        request: Callable[[], T],
        failure: StoreUnavailableError,
        retries: RetryPolicy,
        names: tuple[str, str],
        ask: Callable[[], float | None],
    ) -> T:
        store, what = names
        first, attempt = self._clock.now(), 0
        outage = self._began(store, first)
        has_recovered: bool | None = None
        try:
            while True:
                attempt += 1
                asked = self._asked_pause(outage, failure, ask, retries)
                elapsed = self._clock.now() - first
                pause = retries.pause(attempt, elapsed, self._clock.draw(), asked)
                if pause is not None:
                    self._say(outage, store, what, str(failure), retries)
                if pause is None or not self._waited(pause):
                    has_recovered = False if pause is None else None
                    raise type(failure)(
                        f"{what}: failed {attempt} times in {elapsed:.3g} s, the last time: {failure}"
                    ) from failure
                with self._here.lock:
                    outage.num_repeated += 1
                self._count(num_requests=1, num_retries=1)
                try:
                    result = request()
                except StoreUnavailableError as error:
                    failure = error
                except HeadraceError:  # 404 or 403: an answer of a store that works
                    has_recovered = True
                    raise
                else:
                    has_recovered = True
                    return result
        finally:
            self._ended(outage, store, has_recovered=has_recovered)
            del failure

    def _waited(self, seconds: float) -> bool:
        began = self._clock.now()
        is_wanted = self._clock.wait(seconds)
        self._count(retry_seconds=self._clock.now() - began)
        return is_wanted

    def _began(self, store: str, now: float) -> _Outage:
        with (here := self._here).lock:
            outage = here.outages.setdefault(store, _Outage())
            if outage.num_failing == 0:
                outage.since, outage.num_repeated, outage.is_over = now, 0, False
            outage.num_failing += 1
        return outage

    def _say(self, outage: _Outage, store: str, what: str, failure: str, retries: RetryPolicy) -> None:
        """Log that a store fails: once until it has recovered, and not again soon after that."""
        now = self._clock.now()
        with self._here.lock:
            if outage.is_logged or now - outage.logged < _QUIET_SECONDS:
                return
            outage.is_logged, outage.logged = True, now
        until = datetime.now().astimezone() + timedelta(seconds=retries.window_seconds)
        end = f", until {until:%H:%M:%S}" if retries.num_retries is None else ""
        _log.warning(
            "%s fails: the request for %s is sent again %s%s (download_retry), as is every request that fails: %s",
            store, what, retries, end, failure,
        )  # fmt: skip

    def _ended(self, outage: _Outage, store: str, *, has_recovered: bool | None) -> None:
        """Note that one request is not repeated any more; after the last of them the outage is over.

        Args:
            outage: the state of the store.
            store: its name in messages.
            has_recovered: whether the request got an answer; None if nobody waits for it any more.
        """
        with self._here.lock:
            outage.num_failing -= 1
            if has_recovered is not None:
                outage.is_over = has_recovered
            if outage.num_failing:
                return
            was_logged, outage.is_logged = outage.is_logged, False
            seconds, number = self._clock.now() - outage.since, outage.num_repeated
        if was_logged and outage.is_over:
            _log.warning("%s works again after %.3g s, in which %d requests were sent again", store, seconds, number)

    def _asked_pause(
        self, outage: _Outage, failure: StoreUnavailableError, ask: Callable[[], float | None], retries: RetryPolicy
    ) -> float | None:
        """Seconds that the store asks to wait; one thread asks for all. None if it does not ask for a wait."""
        if failure.status not in STATUSES:
            return None
        now = self._clock.now()
        with self._here.lock:
            is_mine = outage.closed_until <= now and now - outage.asked >= _ASKING_SECONDS
            if is_mine:
                outage.asked = now
        seconds = failure.asked_seconds
        if seconds is None and is_mine:
            seconds = ask()
        if seconds is not None:
            with self._here.lock:
                outage.closed_until = self._clock.now() + min(seconds, retries.window_seconds)
        left = outage.closed_until - self._clock.now()
        return left if left > 0 else None

    def _count(
        self, num_requests: int = 0, num_bytes: int = 0, num_retries: int = 0, retry_seconds: float = 0.0
    ) -> None:
        with (here := self._here).lock:
            counts = here.counts
            here.counts = RequestCounts(
                counts.num_requests + num_requests,
                counts.num_bytes + num_bytes,
                counts.num_retries + num_retries,
                counts.retry_seconds + retry_seconds,
            )

    @property
    def _here(self) -> _ProcessState:
        pid = os.getpid()
        return self._processes.get(pid) or self._processes.setdefault(pid, _ProcessState())


@dataclass(frozen=True, slots=True)
class Transfer:
    """Settings for the requests that a loader sends to its stores.

    Attributes:
        timeout_seconds: how long one request may take, from connecting to the last byte.
        retries: how often, or for how long, a failed request is sent again.
        requests: sends and counts the requests, for all stores of one loader together.
    """

    timeout_seconds: float = 60.0
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    requests: StoreRequests = field(default_factory=StoreRequests, compare=False)
