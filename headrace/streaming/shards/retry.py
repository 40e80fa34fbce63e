"""Trying again: which failures of a store are worth it, how often and after what pause.

Owns that loop. A pause is never random: a run that failed can be repeated as it was.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import IntegrityError, NotFoundError, SampleCountError, StorageError
from headrace.streaming.settings import FetchConfig

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0


def retried(
    action: Callable[[], T],
    config: FetchConfig,
    what: str,
    failures: tuple[type[StorageError | IntegrityError], ...] = (StorageError, IntegrityError),
) -> T:
    """The result of `action`, tried `download_retry` more times when the store fails; pauses double.

    Args:
        action: what to try.
        config: how often.
        what: names it in messages.
        failures: which errors are worth another attempt. Where one retried action holds another, each takes its own, or
            the attempts would multiply.

    Raises:
        NotFoundError: the object is not there; never tried again.
        SampleCountError: it is whole, but not what was promised; never tried again.
        IntegrityError: what came was damaged each time.
        StorageError: it failed each time; names `what` and the number of attempts, caused by the last failure.
    """
    for attempt in range(config.download_retry + 1):
        if attempt:
            time.sleep(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)))
        try:
            return action()
        except (NotFoundError, SampleCountError):
            raise
        except failures as error:
            last = error
    try:
        raise type(last)(f"{what}: failed {config.download_retry + 1} times, the last time: {last}") from last
    finally:
        del last  # it holds this frame, which would hold it
