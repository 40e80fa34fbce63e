"""Says in the log of a run how far it is: a line at the beginning, then one every ten seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_EVERY_SECONDS = 10.0


def both(first: Callable[[int], None], second: Callable[[int], None]) -> Callable[[int], None]:
    """A function that calls two functions with its argument."""

    def call(count: int) -> None:
        first(count)
        second(count)

    return call


@dataclass(slots=True)
class ProgressLines:
    """The lines about one piece of work.

    Attributes:
        say: writes a line.
        what: the work, such as `mel of train-0000`.
        where: the devices or machines that do it.
        total: how many samples or files it has.
        unit: what is counted.
        clock: seconds from any fixed moment.
    """

    say: Callable[[str], None]
    what: str
    where: str
    total: int
    unit: str = "samples"
    clock: Callable[[], float] = time.monotonic
    _done: int = 0
    _begun: float = field(init=False)
    _said: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self._begun = self._said = self.clock()

    def begin(self, how: str) -> None:
        """Say what begins. `how` names batch and threads."""
        self.say(f"{self.what}: {self.total:,} {self.unit}, on {self.where}, {how}")

    def add(self, count: int) -> None:
        """Count further samples as done."""
        self.reach(self._done + count, self.total)

    def reach(self, done: int, total: int) -> None:
        """Note that this many of all are done."""
        self._done, self.total, now = done, total, self.clock()
        if now - self._said < _EVERY_SECONDS:
            return
        self._said = now
        share, speed = done / max(total, 1), done / (now - self._begun)
        self.say(
            f"{self.what}: {done:,} of {total:,} {self.unit} ({share:.0%}), {speed:,.4g} {self.unit}/s, on {self.where}"
        )
