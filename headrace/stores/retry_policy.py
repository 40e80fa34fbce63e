"""Decides how often and after which pauses a failed request is sent again: the setting `download_retry`.

Pure arithmetic: the time and the random number are arguments. `requests.StoreRequests` sends failed requests again by
these decisions, and `refetch` uses the same pauses for damaged downloads.
"""

from dataclasses import dataclass

WINDOW_SECONDS = 120.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_MOST_DOUBLINGS = 20  # far beyond the longest pause; keeps powers of two small


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limit of the attempts, or of the time, for sending a failed request again (`download_retry`).

    Attributes:
        num_retries: further attempts after a failed one; None keeps trying for `window_seconds`.
        window_seconds: how long to keep trying after the first failure, where `num_retries` is None; also the longest
            pause that a store may ask for.
    """

    num_retries: int | None = None
    window_seconds: float = WINDOW_SECONDS

    def pause(
        self, attempt: int, elapsed_seconds: float, draw: float, asked_seconds: float | None = None
    ) -> float | None:
        """Seconds to wait before a further attempt; None to give up.

        Pauses double from 0.1 s to 5 s. Each is shortened by up to a half, at random, so that clients that failed
        together do not retry together. The last attempt of a window is made at its end.

        >>> [RetryPolicy().pause(attempt, 0.0, draw=1.0) for attempt in (1, 2, 3, 50)]
        [0.1, 0.2, 0.4, 5.0]
        >>> RetryPolicy().pause(50, 118.0, draw=1.0), RetryPolicy().pause(51, 120.0, draw=1.0)
        (2.0, None)

        Args:
            attempt: 1 for the first retry.
            elapsed_seconds: time since the first failure of this request.
            draw: a random number in [0, 1).
            asked_seconds: the wait that the store asked for (Retry-After), added to the pause.
        """
        if self.num_retries is not None and attempt > self.num_retries:
            return None
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * (1 << min(attempt - 1, _MOST_DOUBLINGS)))
        pause *= (1 + draw) / 2
        if self.num_retries is None:
            if elapsed_seconds >= self.window_seconds:
                return None
            pause = min(pause, self.window_seconds - elapsed_seconds)
        if asked_seconds is not None:
            pause += min(asked_seconds, self.window_seconds)
        return pause

    def __str__(self) -> str:
        """For a log line.

        >>> print(RetryPolicy(), "|", RetryPolicy(1), "|", RetryPolicy(7))
        for up to 120 s | 1 more time | up to 7 more times
        """
        if self.num_retries is None:
            return f"for up to {self.window_seconds:g} s"
        return "1 more time" if self.num_retries == 1 else f"up to {self.num_retries} more times"
