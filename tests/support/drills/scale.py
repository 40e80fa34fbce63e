"""Runs the rounds of a drill, and writes a table of their outcomes.

The random seed of a round depends only on the drill's name and the round's number, so that a failed round can be run
alone. `make test-slow` runs the first few rounds; `make drills` runs all of them and
writes a table.

    HEADRACE_DRILLS=full         all rounds
    HEADRACE_DRILLS_ROUND=17     that round alone
"""

import fcntl
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

TABLE = Path(__file__).parents[3] / "benchmarks/results/drills.json"
_MOST_FAILURES = 20


def is_full() -> bool:
    """Whether all rounds are wanted."""
    return os.environ.get("HEADRACE_DRILLS") == "full"


def rounds(few: int, many: int) -> int:
    """The number of rounds of a test that is repeated: few as a slow test, many as a drill."""
    return many if is_full() else few


@dataclass(slots=True)
class Drill:
    """A running drill.

    Attributes:
        name: name of the drill.
        num_rounds: number of rounds that were run.
        outcomes: how often each outcome occurred, counted in `unit`s.
    """

    name: str
    num_rounds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def repeat(self, one_round: Callable[[random.Random], str | Iterable[str]], *, small: int, full: int) -> None:
        """Run the rounds. `one_round` returns its outcomes: one word for each thing that was tried.

        Raises:
            ExceptionGroup: rounds failed; each error says how to run its round again.
        """
        failures: list[Exception] = []
        for number in self._numbers(small, full):
            try:
                came = one_round(random.Random(f"{self.name} {number}"))
                words = [came] if isinstance(came, str) else list(came)
            except Exception as error:  # noqa: BLE001 - raised at the end
                again = f"HEADRACE_DRILLS=full HEADRACE_DRILLS_ROUND={number}"
                error.add_note(f"drill {self.name!r}, round {number}; to run it alone: {again}")
                failures.append(error)
                if len(failures) == _MOST_FAILURES or not is_full():
                    break
            else:
                self.outcomes.update(words)
            self.num_rounds += 1
        if failures:
            raise ExceptionGroup(f"{self.name}: {len(failures)} rounds failed", failures)

    def write(self, *, is_failed: bool) -> None:
        """Put the row of this drill into the table."""
        row = {
            "drill": self.name,
            "failed": is_failed,
            "rounds": self.num_rounds,
            "count": self.outcomes.total(),
            "outcomes": dict(sorted(self.outcomes.items())),
            "seconds": round(time.monotonic() - self.began, 1),
        }
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        with TABLE.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            rows = {known["drill"]: known for known in json.loads(file.read() or "[]")} | {self.name: row}
            file.truncate(0)
            file.write(json.dumps([rows[name] for name in sorted(rows)], indent=1) + "\n")

    @staticmethod
    def _numbers(small: int, full: int) -> Iterable[int]:
        if wanted := os.environ.get("HEADRACE_DRILLS_ROUND"):
            return [int(wanted)]
        return range(rounds(small, full))
