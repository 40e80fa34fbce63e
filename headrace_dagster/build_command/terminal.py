"""Prints the progress of `build.py`, and its results."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from headrace.catalog.stored.partitions import PartitionSize
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace_dagster.build_command.runs import RunOutcome
from headrace_dagster.resources.progress import BuildProgress

_SECONDS_PER_HOUR = 3600


class TerminalProgress(BuildProgress):
    """Draws a progress bar on a terminal; elsewhere prints one line for each stage that has work."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Bar(
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._hours = (0.0, 0.0)

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, highlight=False)

    @contextmanager
    def stage(self, title: str, work: Mapping[str, PartitionSize], unit: str = "samples") -> Iterator[None]:
        """Show the progress of a stage that builds these partitions."""
        total = sum(part.num_samples for part in work.values())
        if not self.console.is_terminal:
            if total:
                self.say(f"{title}: {total} {unit}")
            yield
            return
        self._hours = (0.0, sum(part.seconds for part in work.values()) / _SECONDS_PER_HOUR)
        with self._bar:
            self._task = self._bar.add_task(title, total=total, unit=unit)
            try:
                yield
            finally:
                self._bar.remove_task(self._task)
                self._task = None

    def scanned(self, done: int, total: int) -> None:
        """See `BuildProgress.scanned`."""
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif done == 1:
            self.say(f"reading {total} new or changed files")

    def resuming(self, num_files: int) -> None:
        """See `Progress.resuming`."""
        files = "1 file was" if num_files == 1 else f"{num_files} files were"
        self.say(f"{files} read by a scan that was interrupted; it goes on from there")

    def settling(self, num_files: int, seconds: float) -> None:
        """See `BuildProgress.settling`."""
        files = "1 file that has" if num_files == 1 else f"{num_files} files that have"
        self.say(f"waiting {seconds:.0f} s for {files} just changed (source.settle_seconds)")

    def built(self, num_samples: int) -> None:
        """See `BuildProgress.built`."""
        if self._task is None:
            return
        self._bar.advance(self._task, num_samples)
        task = next(task for task in self._bar.tasks if task.id == self._task)
        hours = self._hours[1] * (task.completed / task.total if task.total else 1.0)
        self._bar.update(self._task, unit=f"samples · {hours:.2f}/{self._hours[1]:.2f} h")


def show_snapshots(console: Console, snapshots: Mapping[str, NumberedSnapshot]) -> None:
    """Print a table of what the data set holds, by part and split."""
    table = Table("what", "split", "shards", "samples", "hours", "size", title_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for part, numbered in snapshots.items():
        for split, totals in numbered.snapshot.splits.items():
            hours = f"{totals.seconds / _SECONDS_PER_HOUR:.3f}"
            table.add_row(
                part, split, str(totals.num_shards), str(totals.num_samples), hours, decimal(totals.num_bytes)
            )
    console.print(table)


def show_warnings(console: Console, outcomes: list[RunOutcome]) -> None:
    """Print what the checks of each run warn of."""
    for outcome in outcomes:
        for warning in outcome.warnings:
            console.print(Text("warning", "bold yellow"), Text(f"{outcome.name}: "), end="")
            console.print(warning, markup=False, highlight=False, soft_wrap=True)


def show_faults(console: Console, outcomes: list[RunOutcome]) -> None:
    """Print the faults of each run."""
    for outcome in outcomes:
        for fault in outcome.faults:
            console.print(Text("failed", "bold red"), Text(f"{outcome.name}: "), end="")
            console.print(fault, markup=False, highlight=False, soft_wrap=True)
