"""Runs `headrace seen`, `batch` and `bill`: opens a run from its state, and prints what it was given as a table.

The answers are computed by `headrace.streaming.asked`.
"""

import argparse
from collections.abc import Callable

from headrace.cli.as_json import plain, print_json
from headrace.cli.tables import grid, plain_console
from headrace.streaming.asked import answers
from headrace.streaming.asked.asked_run import AskedRun, read_state

_SHOWN = 100


def run_seen(options: argparse.Namespace, advance: Callable[[], object]) -> int:
    """`headrace seen`: 1 if the sample was not delivered."""
    run = AskedRun.opened(read_state(options.path), options.remote)
    found = answers.seen(run, options.key, advance)
    state = run.state
    if options.json:
        print_json({"key": options.key, **_position(run), "times": len(found), "seen": found})
        return 0 if found else 1
    if found:
        rows = [(str(one.epoch), str(one.step), str(one.row), one.stream) for one in found[-_SHOWN:]]
        title = f"{options.key}: delivered {len(found)} times" + (f", the last {_SHOWN}" if found[_SHOWN:] else "")
        plain_console().print(grid(title, ("epoch#", "step#", "row#", "stream"), rows))
    else:
        where = f"epoch {state.epoch}, row {state.sample_in_epoch}"
        plain_console().print(f"{options.key}: not delivered up to {where}", highlight=False, markup=False)
    return 0 if found else 1


def run_batch(options: argparse.Namespace) -> int:
    """`headrace batch`."""
    run = AskedRun.opened(read_state(options.path), options.remote)
    rows = answers.batch(run, options.step)
    if options.json:
        print_json({"epoch": run.state.epoch, "step": options.step, "rows": rows})
        return 0
    cells = [(str(row.row), _item(row), row.stream, row.shard, _text(row.text), _text(row.source)) for row in rows]
    title = f"global batch {options.step} of epoch {run.state.epoch}"
    plain_console().print(grid(title, ("row#", "key", "stream", "shard", "text", "source"), cells))
    return 0


def run_bill(options: argparse.Namespace) -> int:
    """`headrace bill`."""
    columns, _ = answers.columns_for(options.by)
    run = AskedRun.opened(read_state(options.path), options.remote, columns=columns)
    found = answers.bill(run, options.by)
    known = [row.hours for row in found.rows if row.hours is not None]
    samples, hours = sum(row.samples for row in found.rows), sum(known) if len(known) == len(found.rows) else None
    if options.json:
        print_json({**_position(run), **plain(found), "samples": samples, "hours": hours})
        return 0
    rows = [(*map(_text, row.group), str(row.samples), _hours(row.hours)) for row in found.rows]
    total = ("all", *[""] * (len(found.by) - 1), str(samples), _hours(hours))
    title = f"delivered up to epoch {run.state.epoch}, row {run.state.sample_in_epoch}"
    console = plain_console()
    console.print(grid(title, (*found.by, "samples#", "hours#"), [*rows, total]))
    if found.is_estimated:
        console.print("hours are estimated from the mean lengths of shards", highlight=False)
    return 0


def _position(run: AskedRun) -> dict[str, int]:
    return {"epoch": run.state.epoch, "sample_in_epoch": run.state.sample_in_epoch}


def _item(row: answers.AskedRow) -> str:
    """The key, and for a window the time at which it begins."""
    return row.key if row.start_seconds is None else f"{row.key} at {row.start_seconds:g} s"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _hours(hours: float | None) -> str:
    return "unknown" if hours is None else f"{hours:.4g}" if hours < 1 else f"{hours:.2f}"
