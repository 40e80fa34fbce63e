"""Figures of an encoding that are shown to the user: speed, waits, padding, memory, and the check of one sample."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Waits:
    """Time for which the thread that feeds the devices waited, in seconds by cause. A wait within another counts once.

    Attributes:
        seconds: cause → seconds.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _now: Callable[[], float] = time.perf_counter
    _causes: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def on(self, cause: str) -> Iterator[None]:
        """Context that waits for this."""
        self._count()
        self._causes.append(cause)
        try:
            yield
        finally:
            self._count()
            self._causes.pop()

    def each(self, cause: str, items: Iterator[T]) -> Iterator[T]:
        """The items, whose coming is waited for."""
        while True:
            with self.on(cause):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _count(self) -> None:
        now = self._now()
        if self._causes:
            cause = self._causes[-1]
            self.seconds[cause] = self.seconds.get(cause, 0.0) + now - self._since
        self._since = now


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between two encodings of one sample.

    Attributes:
        key: key of the sample.
        difference: largest difference of a frame, as a share of the largest frame.
        allowed: largest difference that rounding explains.
        is_of_codes: whether `difference` is the share of different codes.
        num_values: numbers that were compared.
    """

    key: str
    difference: float
    allowed: float
    is_of_codes: bool = False
    num_values: int = 0

    @property
    def is_same(self) -> bool:
        """Whether rounding explains the difference."""
        return self.difference <= self.allowed

    def __str__(self) -> str:
        """The comparison in words, without the key."""
        if self.is_of_codes:
            return f"encoded alone, {self.difference:.2%} of the codes differ ({self.allowed:.0%} are allowed)"
        return f"encoded alone, a frame differs by {self.difference:.2g} of the largest ({self.allowed:.2g} is allowed)"


@dataclass(frozen=True, slots=True)
class EncodingStats:
    """Figures of one partition's encoding; all zero when nothing had to be encoded.

    Attributes:
        audio_seconds: length of the encoded audio; overlaps of windows count once.
        wall_seconds: time from the start of the first batch to the end of the last one.
        num_batches: number of batches.
        padding_share: share of padding in the PCM frames that the encoder computed.
        busy_share: share of the wall time in which the devices computed; for a GPU, its utilization.
        devices: the devices that were used.
        peak_memory_bytes: largest memory allocated on a GPU; 0 without a GPU.
        waits: seconds for which the thread that feeds the devices waited for each of `opening` (audio shards),
            `decoding`, `device` and `publishing`.
        halvings: how often memory ran out and the batches were halved.
        num_kept: samples whose latents were reused, because their audio has not changed.
        num_texts: distinct texts that were encoded; 0 for audio.
        alone: the comparison of one sample encoded in a batch and alone; None if no batch had several rows.
    """

    audio_seconds: float = 0.0
    wall_seconds: float = 0.0
    num_batches: int = 0
    padding_share: float = 0.0
    busy_share: float = 0.0
    devices: tuple[str, ...] = ()
    peak_memory_bytes: int = 0
    waits: Mapping[str, float] = field(default_factory=dict)
    halvings: int = 0
    num_kept: int = 0
    num_texts: int = 0
    alone: Comparison | None = None

    @property
    def times_real_time(self) -> float:
        """Seconds of audio encoded per second."""
        return self.audio_seconds / self.wall_seconds if self.wall_seconds else 0.0
