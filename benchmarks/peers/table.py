"""Prints the table of one kind of samples."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.clips import BEST
from benchmarks.peers.measure import Memory, Timing
from benchmarks.peers.systems import LIMIT, OURS, Entry, System

TITLES = ("samples/s", "range", "of limit", "ours/it", "after 1st", "1st s", "CPU s", "stolen", "peak MiB")
WIDTHS = (10, 14, 9, 9, 10, 8, 8, 8, 9)


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one entry, and the memory that it took."""

    entry: Entry
    runs: Sequence[Timing]
    memory: Memory | None

    def median(self, name: str) -> float:
        """Of a field or property of `Timing`."""
        return statistics.median(getattr(run, name) for run in self.runs)

    @property
    def rate(self) -> float:
        """Samples/s: what decides."""
        return self.median("rate")


def show(kind: str, timings: Mapping[Entry, Sequence[Timing]], memories: Mapping[Entry, Memory]) -> None:
    """Print medians, the fastest first; a star marks the setting that counts of each form of a system."""
    rows = sorted((Row(entry, runs, memories.get(entry)) for entry, runs in timings.items()), key=lambda row: -row.rate)
    limit, ours = _best(rows, LIMIT, BEST), _best(rows, OURS, BEST)
    _print(f"\n{kind}; workers or threads", TITLES)
    for row in rows:
        rates = [run.rate for run in row.runs]
        of_limit = f"{row.rate / limit.rate:.2f}" if limit else ""
        lead = f"{ours.rate / row.rate:.2f}" if ours else ""
        star = "*" if row == _best(rows, row.entry.system, row.entry.form) else " "
        cells = (f"{row.rate:.0f}", f"{min(rates):.0f}-{max(rates):.0f}", of_limit, lead)
        more = (f"{row.median('steady_rate'):.0f}", f"{row.median('first_seconds'):.3f}")
        stolen = f"{statistics.mean(run.stolen_share for run in row.runs):.1%}"
        rest = (f"{row.median('cpu_seconds'):.2f}", stolen, f"{row.memory.peak_mib:.0f}" if row.memory else "")
        _print(f"{star} {row.entry.label}", (*cells, *more, *rest))


def _best(rows: list[Row], system: System, form: str) -> Row | None:
    return next((row for row in rows if (row.entry.system, row.entry.form) == (system, form)), None)


def _print(name: str, cells: Sequence[str]) -> None:
    print(f"{name:32}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True)))
