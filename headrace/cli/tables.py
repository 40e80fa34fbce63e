"""Prints facts about data sets as tables on a terminal.

Only layout and wording are decided here; the facts come from `headrace.upkeep.inspection`.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.cli.printable import printable
from headrace.format.beside.column_files import SPECS_KEY
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.format.tars.tar_names import is_packed_tar
from headrace.upkeep.inspection import CatalogFacts, DatasetFacts, LengthFacts, PartFacts, TarFacts, ViewFacts

_SHOWN_SNAPSHOTS = 10
_SHOWN_SHARDS = 30
_PIPE_COLUMNS = 10_000


def bytes_text(count: float) -> str:
    """A number of bytes as text: `3.1 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration_text(seconds: float) -> str:
    """A duration as text: `0.43 s`, `12.0 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.2f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class _PlainConsole(Console):
    """A console in which no name has a meaning for the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as in rich
        """See `Console.render_str`."""
        return super().render_str(printable(text), **options)


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints names as they are: neither `[b]` nor `:x:` nor an escape in a path has a meaning.

    What goes into a pipe or a file is not folded, because programs read it line by line; `COLUMNS` sets another width.
    """
    console = _PlainConsole(stderr=stderr, markup=False, emoji=False)
    if not console.file.isatty() and "COLUMNS" not in os.environ:
        console.width = _PIPE_COLUMNS
    return console


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns whose name ends in `#` hold numbers."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.removesuffix("#"), justify="right" if column.endswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # Text: brackets in a name are not markup
    return table


def print_facts(console: Console, facts: DatasetFacts) -> None:
    """Print everything that `inspect` found."""
    for part in facts.parts:
        for table in _part(part):
            console.print(table)
    for view in facts.views:
        console.print(_view(view))
        snapshot = view.newest.snapshot
        console.print(Text(printable(f"of audio snapshot {snapshot.audio_snapshot}: {snapshot.definition}\n")))
    if facts.tars is not None:
        console.print(_tars(facts.path, facts.tars))
        _print_lengths(console, facts.tars.lengths)
    if facts.catalog is not None:
        for table in _catalog(facts.catalog):
            console.print(table)


def _part(part: PartFacts) -> Iterable[RenderableType]:
    newest = part.snapshots[-1]
    rows = [
        (split, totals.num_shards, totals.num_samples, duration_text(totals.seconds), bytes_text(totals.num_bytes))
        for split, totals in newest.snapshot.splits.items()
    ]
    columns = ("split", "shards#", "samples#", "length#", "size#")
    yield grid(f"{part.name} · snapshot {newest.number}", columns, [*rows, _totals(newest)])
    yield from _lengths(part.lengths)
    if part.columns:
        names = [(spec.name, str(spec.kind), "catalog" if spec.is_fact else "table") for spec in part.columns]
        yield grid("columns", ("name", "type", "from"), names)
    if part.rejects:
        more = f" (first {len(part.rejects)} of {part.num_rejected})" if part.num_rejected > len(part.rejects) else ""
        what = "rows without a sample" if part.columns else "samples without latents"
        yield grid(f"{what}{more}", ("key", "path", "code", "reason"), part.rejects)
    yield _snapshots(part.snapshots)
    num_shards, num_bytes = part.unnamed
    if num_shards:
        size = bytes_text(num_bytes)
        yield Text(f"{num_shards} other shards ({size}) that snapshot {newest.number} does not name; see headrace gc\n")


def _view(view: ViewFacts) -> Table:
    """Table of the share of each split that a view chooses."""
    snapshot = view.newest.snapshot
    rows = [
        (
            split,
            totals.num_samples,
            totals.num_chosen,
            share_text(totals.num_chosen, totals.num_samples),
            totals.num_drawn,
        )
        for split, totals in snapshot.splits.items()
    ]
    total = (snapshot.num_samples, snapshot.num_chosen, share_text(snapshot.num_chosen, snapshot.num_samples))
    columns = ("split", "samples#", "chosen#", "share#", "in an epoch#")
    return grid(f"{view.name} · snapshot {view.newest.number}", columns, [*rows, ("all", *total, snapshot.num_drawn)])


def share_text(part: int, whole: int) -> str:
    """A share as text: `12.5%`, or a hyphen of nothing."""
    return f"{100 * part / whole:.1f}%" if whole else "-"


def _totals(numbered: NumberedSnapshot) -> tuple[object, ...]:
    snapshot = numbered.snapshot
    seconds = sum(totals.seconds for totals in snapshot.splits.values())
    num_bytes = sum(totals.num_bytes for totals in snapshot.splits.values())
    return "all", snapshot.num_shards, snapshot.num_samples, duration_text(seconds), bytes_text(num_bytes)


def _snapshots(snapshots: Sequence[NumberedSnapshot]) -> Table:
    rows = [
        (
            numbered.number,
            numbered.snapshot.num_samples,
            numbered.snapshot.fingerprint[:12],
            numbered.snapshot.catalog[:12],
            _origin(numbered),
        )
        for numbered in reversed(snapshots[-_SHOWN_SNAPSHOTS:])
    ]
    more = f" (newest {_SHOWN_SNAPSHOTS} of {len(snapshots)})" if len(snapshots) > _SHOWN_SNAPSHOTS else ""
    return grid(f"snapshots{more}", ("number#", "samples#", "fingerprint", "catalog", "made from"), rows)


def _origin(numbered: NumberedSnapshot) -> str:
    """Origin of a snapshot in words; of latents `audio snapshot 3, encoder 1a2b3c4d5e6f, …`."""
    parts = []
    for name, value in numbered.snapshot.origin.items():
        if name == SPECS_KEY:  # shown by themselves
            continue
        is_digest = isinstance(value, str) and len(value) == 64
        parts.append(f"{name.replace('_', ' ')} {value[:12] if is_digest else value}")
    return ", ".join(parts) or "recordings"


def _lengths(lengths: LengthFacts) -> Iterable[RenderableType]:
    if not lengths.num_indexes:
        return
    rows: list[tuple[str, str]] = [("fields", ", ".join(lengths.fields))]
    if lengths.seconds:
        rows.append(("shortest · median · longest", " · ".join(duration_text(value) for value in lengths.seconds)))
    elif lengths.frames:
        rows.append(("shortest · median · longest", " · ".join(f"{value} frames" for value in lengths.frames)))
    if lengths.rates_hz:
        rows.append(("sample rates", ", ".join(f"{rate} Hz: {count}" for rate, count in lengths.rates_hz.items())))
    for name, channels in (lengths.channels_of or {"": lengths.channels}).items():
        if channels:
            counts = ", ".join(f"{number}: {count}" for number, count in channels.items())
            rows.append((f"channels of {name}" if name else "channels", counts))
    yield grid(f"samples (from {lengths.num_indexes} indexes)", ("what", "found"), rows)


def _print_lengths(console: Console, lengths: LengthFacts) -> None:
    for table in _lengths(lengths):
        console.print(table)


def _tars(path: str, tars: TarFacts) -> Table:
    known = [count for _, count, _ in tars.shards if count is not None]
    unknown = [name for name, count, _ in tars.shards if count is None]
    counts_them = "verify" if any(map(is_packed_tar, unknown)) else "index"
    rows = [
        (name, "?" if count is None else count, bytes_text(size)) for name, count, size in tars.shards[:_SHOWN_SHARDS]
    ]
    if len(tars.shards) > _SHOWN_SHARDS:
        rows.append((f"… {len(tars.shards) - _SHOWN_SHARDS} more", "", ""))
    total = f"{sum(known)}" + (f" + ? of {len(unknown)} shards (headrace {counts_them} counts them)" if unknown else "")
    rows.append((f"all {len(tars.shards)}", total, bytes_text(sum(size for _, _, size in tars.shards))))
    return grid(path, ("shard", "samples#", "size#"), rows)


def _catalog(catalog: CatalogFacts) -> Iterable[Table]:
    rows = [("recordings", catalog.num_recordings), ("hours", f"{catalog.hours:.2f}")]
    if catalog.num_duplicates:
        rows.append(("byte-identical to another one", catalog.num_duplicates))
    rows += [(f"rejected: {code}", count) for code, count in catalog.reasons.items()]
    yield grid("catalog (the last scan of the source)", ("what", "count#"), rows)
    if catalog.rejects:
        total = sum(catalog.reasons.values())
        more = f" (first {len(catalog.rejects)} of {total})" if total > len(catalog.rejects) else ""
        yield grid(f"rejected{more}", ("path", "code", "reason"), catalog.rejects)
