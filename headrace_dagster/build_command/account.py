"""Prints what a build changed and why: files, rejects, partitions, shards, seconds.

The facts come from `headrace.assemble.changes`.
"""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from headrace.assemble.build_reasons import BuildReason
from headrace.assemble.changes import BuildChanges, BuildStep, ShardChanges
from headrace.catalog.compared.changes import CatalogChanges
from headrace.format.rejects import Reject, RejectChanges, varied

_MOST_PATHS = 3
_MOST_PARTITIONS = 4
_MOST_REJECTS = 10


def show_changes(console: Console, changes: BuildChanges, rejected_at: str) -> None:
    """Print files, rejects (new ones first), and each step with its partitions, shards and seconds.

    Args:
        console: where to print.
        changes: what to show.
        rejected_at: the table of all rejects.
    """
    if changes.catalog is not None:
        _say(console, f"files: {files_text(changes.catalog)}")
        _show_rejects(console, changes.catalog.rejects, rejected_at)
    for step in changes.steps:
        if step.shards is not None and step.shards.rejects.new:
            _show_new(console, f"samples that got no latents in {step.name}, new", step.shards.rejects.new)
    _show_reasons(console, changes.steps)
    if changes.steps:
        console.print(_steps(changes))


def nothing_changed(name: str, changes: BuildChanges, held: str, rejected_at: str) -> str:
    """The line for a build that had nothing to do, without its seconds; `held` says what the data set contains."""
    catalog = changes.catalog
    num_rejected = sum(catalog.rejects.faults.values()) if catalog else 0
    rejected = f"; {num_rejected} rejected as before: {rejected_at}" if num_rejected else ""
    recordings = f"{catalog.num_recordings} {catalog.unit}" if catalog else "0 recordings"
    return f"{name}: nothing changed: {recordings}, {held}{rejected}"


_OTHER = {"recordings": "metadata, key or excluded segments", "rows": "rows, metadata or keys"}


def files_text(catalog: CatalogChanges) -> str:
    """The number of files that were added, changed and removed, with the first of each.

    >>> from headrace.format.rejects import compare_rejects
    >>> files_text(CatalogChanges(("a.wav",), (), ("b.wav", "c.wav"), (), compare_rejects([], []), 7))
    '1 added (a.wav), 2 removed (b.wav, c.wav); 7 recordings'
    """
    kinds = {
        "added": catalog.added,
        "changed": catalog.changed,
        "removed": catalog.removed,
        f"with other {_OTHER[catalog.unit]}": catalog.described,
    }
    said = [f"{len(paths)} {kind} ({_first(paths, _MOST_PATHS)})" for kind, paths in kinds.items() if paths]
    return f"{', '.join(said) or 'as before'}; {catalog.num_recordings} {catalog.unit}"


def why_text(built: Mapping[str, Sequence[BuildReason]]) -> str:
    """Reasons with their partitions, on one line.

    >>> why_text({"train-0000": (BuildReason.NEW,), "test-0000": (BuildReason.NEW,)})
    'new: train-0000, test-0000'
    """
    partitions: dict[str, list[str]] = {}
    for partition, reasons in built.items():
        partitions.setdefault(" and ".join(reasons), []).append(partition)
    return "; ".join(f"{reason}: {_first(names, _MOST_PARTITIONS)}" for reason, names in partitions.items())


def _show_rejects(console: Console, rejects: RejectChanges, rejected_at: str) -> None:
    total = sum(rejects.faults.values())
    if rejects.new:
        _show_new(console, "rejected, new", rejects.new)
    gone = f", {rejects.num_gone} fewer than before" if rejects.num_gone else ""
    if total or gone:
        _say(console, f"{total} rejected in all{_counted(rejects.faults)}{gone}; each with its reason: {rejected_at}")
    if rejects.asked_for:
        new = f", {len(rejects.left_out)} of them new" if rejects.left_out else ""
        total = sum(rejects.asked_for.values())
        _say(console, f"{total} left out as the YAML asks{_counted(rejects.asked_for)}{new}")


def _show_new(console: Console, title: str, rows: Sequence[Reject]) -> None:
    """The first ten, of each kind one first, and the count of the rest."""
    _say(console, f"{title}: {len(rows)}")
    for row in varied(rows)[:_MOST_REJECTS]:
        _say(console, f"  {row.subject}: {row.code}: {row.reason}")
    if len(rows) > _MOST_REJECTS:
        _say(console, f"  … and {len(rows) - _MOST_REJECTS} more")


def _steps(changes: BuildChanges) -> Table:
    """Steps with their seconds and shards, in 80 columns."""
    table = Table("step", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.columns[0].no_wrap = True
    for name in ("seconds", "partitions", "written", "reused", "removed", "shards"):
        table.add_column(name, justify="right", no_wrap=True)
    for step in changes.steps:
        seconds = "" if step.seconds is None else f"{step.seconds:.1f}"
        table.add_row(step.name, seconds, *([] if step.shards is None else _cells(step.shards)))
    table.add_section()
    table.add_row("in all", f"{changes.seconds:.1f}")
    return table


def _cells(shards: ShardChanges) -> list[str]:
    numbers = (shards.num_written, shards.num_reused, shards.num_removed, shards.num_shards)
    return [f"{len(shards.built)} of {shards.num_partitions}", *map(str, numbers)]


def _show_reasons(console: Console, steps: Sequence[BuildStep]) -> None:
    """Why partitions were built, step by step, and how many are still to build."""
    for step in steps:
        if audio := str(step.audio):
            _say(console, f"{step.name}: samples written: {audio}")
        if step.shards is None:
            continue
        if step.shards.built:
            _say(console, f"{step.name}: {why_text(step.shards.built)}")
        if step.shards.num_waiting:
            _say(console, f"{step.name}: {step.shards.num_waiting} partitions are still to build")


def _counted(codes: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{code} {count}' for code, count in codes.items())})" if codes else ""


def _first(names: Iterable[str], most: int) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
