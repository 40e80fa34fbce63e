"""What each command does: call the library, show progress, print the result, return the exit code.

Owns that thread alone. Results go to standard output, progress and errors to standard error.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.tables import bytes_text, grid, print_facts
from headrace.export import export_snapshot
from headrace.gc import collect, find_garbage, find_leftovers, remove_leftovers
from headrace.inspection import inspect
from headrace.outputs import AUDIO, find_parts, need_parts
from headrace.storage import open_storage
from headrace.tar_indexes import index_tars
from headrace.verify import Depth, find_target, verify

_SHOWN_FAULTS = 100

Command: TypeAlias = Callable[[argparse.Namespace], int]


def run_inspect(options: argparse.Namespace) -> int:
    """`headrace inspect`."""
    print_facts(Console(), inspect(options.path))
    return 0


def run_verify(options: argparse.Namespace) -> int:
    """`headrace verify`."""
    target = find_target(options.path)
    with _progress("verifying", len(target.shards)) as advance:
        verdict = verify(target, Depth(options.jobs, options.sample), lambda _: advance())
    console = Console()
    if verdict.faults:
        faults = [(fault.where, fault.what) for fault in verdict.faults[:_SHOWN_FAULTS]]
        more = f", the first {_SHOWN_FAULTS}" if len(verdict.faults) > _SHOWN_FAULTS else ""
        console.print(grid(f"{len(verdict.faults)} faults{more}", ("where", "what is off"), faults))
    read = f"{verdict.num_shards} shards, {verdict.num_samples} samples, {bytes_text(verdict.num_bytes)} read"
    console.print(f"{read}, {verdict.num_decoded} samples decoded: {_judgement(len(verdict.faults))}", highlight=False)
    return 1 if verdict.faults else 0


def run_index(options: argparse.Namespace) -> int:
    """`headrace index`."""
    with _progress("indexing", None) as advance:
        results = index_tars(options.path, num_threads=options.jobs, progress=lambda _: advance())
    faults = [(result.name, result.fault) for result in results if result.fault]
    console = Console()
    if faults:
        console.print(grid("not indexed; sizes.json is left as it was", ("tar", "why"), faults))
    total = sum(result.num_samples for result in results)
    console.print(
        f"{len(results) - len(faults)} tars indexed, {total} samples: {_judgement(len(faults))}", highlight=False
    )
    return 1 if faults else 0


def run_export(options: argparse.Namespace) -> int:
    """`headrace export`."""
    source = open_storage(options.path)
    parts = {part.name: part.storage for part in need_parts(source)}
    folder = parts.get(".") or parts.get(AUDIO) or next(iter(parts.values()))
    target = open_storage(options.target)
    with _progress("exporting", None) as advance:
        done = export_snapshot(
            folder, target, number=options.snapshot, split=options.split, progress=lambda _: advance()
        )
    num_copied = len(done.shards) - done.num_linked
    samples = sum(shard.num_samples for shard in done.shards)
    removed = f", {done.num_removed} of a former export removed" if done.num_removed else ""
    Console().print(
        f"snapshot {done.snapshot}: {len(done.shards)} shards, {samples} samples → {target.uri} "
        f"({done.num_linked} hard links, {num_copied} copies{removed})",
        highlight=False,
        markup=False,
    )
    return 0


def run_gc(options: argparse.Namespace) -> int:
    """`headrace gc`."""
    storage, now = open_storage(options.path), time.time()
    need_parts(storage)
    found = find_garbage(find_parts(storage), keep=options.keep, now_seconds=now)
    leftovers = find_leftovers(storage, now_seconds=now)
    rows = [
        (
            garbage.part,
            ", ".join(map(str, garbage.kept)),
            garbage.num_shards,
            len(garbage.entries),
            bytes_text(garbage.num_bytes),
        )
        for garbage in found
    ]
    if leftovers:
        size = bytes_text(sum(entry.num_bytes for entry in leftovers))
        rows.append(("files of dead writers", "", 0, len(leftovers), size))
    console = Console()
    title = "would be removed (--dry-run)" if options.dry_run else "removed"
    if not options.dry_run:
        total = sum(len(garbage.entries) for garbage in found)
        with _progress("removing", total) as advance:
            for garbage in found:
                collect(garbage, lambda _: advance())
            remove_leftovers(storage, leftovers)
    elif any(garbage.entries for garbage in found):
        for garbage in found:
            console.print(*(f"{garbage.storage.uri}/{entry.path}" for entry in garbage.entries), sep="\n", markup=False)
    console.print(grid(title, ("part", "snapshots kept", "shards#", "files#", "size#"), rows))
    if num_young := sum(garbage.num_young for garbage in found):
        console.print(f"{num_young} more files are not a day old, and stay until they are: a build may be running")
    return 0


def run_simulate(options: argparse.Namespace) -> int:
    """`headrace simulate`."""
    from headrace.cli import simulation  # noqa: PLC0415 - it imports torch, which other commands need not wait for

    with _progress("simulating", None) as advance:
        found = simulation.simulate(options, advance)
    simulation.print_simulation(Console(), found, options)
    return 0


COMMANDS: dict[str, Command] = {
    "inspect": run_inspect,
    "verify": run_verify,
    "index": run_index,
    "export": run_export,
    "gc": run_gc,
    "simulate": run_simulate,
}


def _judgement(num_faults: int) -> str:
    if num_faults == 0:
        return "all sound"
    return "1 fault" if num_faults == 1 else f"{num_faults} faults"


@contextlib.contextmanager
def _progress(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A bar on standard error, where that is a terminal; gives what to call after each step."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
