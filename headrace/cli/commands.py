"""Runs each command: calls the library, shows progress, prints the result and returns the exit code.

Results go to standard output, progress to standard error.
"""

import argparse
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.catalog.stored.header import HEADER_PATH, check_owner, read_header, unnamed_parts
from headrace.cli.as_json import facts_content, plain, print_json
from headrace.cli.certifying import run_encode_again
from headrace.cli.tables import bytes_text, grid, plain_console, print_facts
from headrace.config.dataset import load_config
from headrace.errors import BuildError, ConfigError
from headrace.exports.exporting import export_snapshot
from headrace.exports.selected import Selection
from headrace.locate import locate
from headrace.stores.storage import LocalStorage, Storage, StoredObject, open_storage
from headrace.upkeep.activity import signs_of_builds
from headrace.upkeep.columns_export import export_columns
from headrace.upkeep.gc import MIN_AGE_SECONDS, Garbage, collect, find_garbage, find_leftovers, remove_leftovers
from headrace.upkeep.inspection import inspect
from headrace.upkeep.left_behind import (
    LeftPart,
    divided_by_age,
    left_behind,
    left_behind_text,
    parts_of_yaml,
    remove_parts,
)
from headrace.upkeep.takedown import find_samples, is_condition
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from headrace.verification.rounds import plan_rounds, verify_rounds
from headrace.verification.shard_check import Depth
from headrace.verification.verify import Verdict, checked_on_threads, find_target, verify

_SHOWN_FAULTS = 100

Command: TypeAlias = Callable[[argparse.Namespace], int]


def run_inspect(options: argparse.Namespace) -> int:
    """`headrace inspect`."""
    facts = inspect(options.path)
    left = [] if options.config is None else _left_behind(locate(options.path).storage, options.config)
    sizes = {part.name: part.num_bytes for part in left}
    if options.json:
        print_json({**facts_content(facts), **({} if options.config is None else {"left_behind": sizes})})
        return 0
    console = plain_console()
    print_facts(console, facts)
    if left:
        console.print(left_behind_text(sizes, options.path, options.config), highlight=False, soft_wrap=True)
    return 0


def run_verify(options: argparse.Namespace) -> int:
    """`headrace verify`."""
    if options.encode_again is not None:
        return run_encode_again(options, _progress)
    target = find_target(options.path, options.key_at)
    depth, console = Depth(options.jobs, options.sample), plain_console()
    if options.fraction is None and not options.resume:
        with _progress("verifying", len(target.shards)) as advance:
            verdict = verify(target, depth, lambda _: advance())
        rounds = []
    else:
        rounds = plan_rounds(target, options.fraction)
        with _progress("verifying", sum(part.num_shards for part in rounds)) as advance:
            checks = partial(checked_on_threads, depth=depth)
            verdict = verify_rounds(target, rounds, checks, time.time, lambda _: advance())
    if options.json:
        coverage = {part.storage.uri: part.coverage() for part in rounds}
        print_json({"faults": verdict.faults, **_numbers_of(verdict), "looked_at": target.seen, "coverage": coverage})
        return 1 if verdict.faults else 0
    if verdict.faults:
        faults = [(fault.where, fault.what) for fault in verdict.faults[:_SHOWN_FAULTS]]
        more = f", the first {_SHOWN_FAULTS}" if len(verdict.faults) > _SHOWN_FAULTS else ""
        console.print(grid(f"{len(verdict.faults)} faults{more}", ("where", "what is wrong"), faults))
    read = f"{verdict.num_shards} shards, {verdict.num_samples} samples, {bytes_text(verdict.num_bytes)} read"
    console.print(f"{read}, {verdict.num_decoded} samples decoded: {_judgement(len(verdict.faults))}", highlight=False)
    if target.seen:
        console.print(f"looked at: {', '.join(target.seen)}", highlight=False, soft_wrap=True)
    for what in target.unseen[:_SHOWN_FAULTS]:
        console.print(f"not looked at: {what}", highlight=False, soft_wrap=True)
    for part in rounds:
        console.print(f"{part.storage.uri}: {part.coverage()}", highlight=False, soft_wrap=True)
    return 1 if verdict.faults else 0


def run_index(options: argparse.Namespace) -> int:
    """`headrace index`."""
    with _progress("indexing", None) as advance:
        results = index_tars(
            options.path,
            num_threads=options.jobs,
            key_at=options.key_at,
            audio_fields=options.audio_fields,
            columns=options.columns,
            into=options.into,
            progress=lambda _: advance(),
        )
    faults = [(result.name, result.fault) for result in results if result.fault]
    console = plain_console()
    if options.json:
        listed = [{"tar": name, "fault": fault} for name, fault in faults]
        samples = sum(result.num_samples for result in results)
        print_json({"num_indexed": len(results) - len(faults), "num_samples": samples, "faults": listed})
        return 1 if faults else 0
    if faults:
        console.print(grid("not indexed; sizes.json was not changed", ("tar", "why"), faults))
    total = sum(result.num_samples for result in results)
    console.print(
        f"{len(results) - len(faults)} tars indexed, {total} samples: {_judgement(len(faults))}", highlight=False
    )
    return 1 if faults else 0


def run_view(options: argparse.Namespace) -> int:
    """`headrace view`."""
    view, is_new = make_view(options.path, options.name, options.where, options.times)
    found = view.snapshot
    if options.json:
        counts = {name: getattr(found, name) for name in ("num_samples", "num_chosen", "num_drawn")}
        print_json({"view": options.name, "snapshot": view.number, "is_new": is_new, **counts})
        return 0
    plain_console().print(
        f"view {options.name}, snapshot {view.number}{'' if is_new else ' (unchanged)'}: {found.num_chosen} of "
        f"{found.num_samples} samples, {found.num_drawn} in an epoch",
        highlight=False,
        markup=False,
    )
    return 0


def run_export(options: argparse.Namespace) -> int:
    """`headrace export`."""
    folder = locate(options.path).one_folder("headrace export").storage
    target = open_storage(options.target)
    selection = Selection(options.snapshot, options.split, options.view, options.columns, options.latents)
    with _progress("exporting", None) as advance:
        done = export_snapshot(folder, target, options.to, selection, advance)
    num_copied = done.num_shards - done.num_linked
    if options.json:
        print_json({**plain(done), "target": target.uri, "num_copied": num_copied})
        return 0
    removed = f", {done.num_removed} of an earlier export removed" if done.num_removed else ""
    plain_console().print(
        f"snapshot {done.snapshot}: {done.num_shards} shards, {done.num_samples} samples → {target.uri} as {done.to} "
        f"({done.num_linked} hard links, {num_copied} copies{removed})",
        highlight=False,
        markup=False,
    )
    return 0


def run_columns(options: argparse.Namespace) -> int:
    """`headrace columns`."""
    located = locate(options.path)
    located.check_snapshots("headrace columns")
    if not located.is_output:
        raise ConfigError(f"{options.path}: is one shard folder of an output; name the output itself")
    target = Path(options.parquet)
    num_rows = export_columns(located.storage, options.set, target)
    if options.json:
        print_json({"set": options.set, "num_samples": num_rows, "file": str(target)})
        return 0
    plain_console().print(f"columns {options.set}: {num_rows} samples → {target}", highlight=False, markup=False)
    return 0


def run_gc(options: argparse.Namespace) -> int:
    """`headrace gc`."""
    located, now = locate(options.path), time.time()
    located.check_snapshots("headrace gc")
    storage = located.storage
    if options.now:
        _check_no_build(storage, is_known=options.no_build_is_running)
    min_age_seconds = -math.inf if options.now else MIN_AGE_SECONDS  # a store's clock may be ahead
    left, young_parts = divided_by_age(_parts_to_remove(storage, options), now - min_age_seconds)
    if not options.dry_run:
        remove_parts(storage, left)
    found = find_garbage(storage, keep=options.keep, now_seconds=now, min_age_seconds=min_age_seconds)
    leftovers = find_leftovers(storage, now_seconds=now, min_age_seconds=min_age_seconds)
    leftovers += [entry for entry in unnamed_parts(storage) if now - entry.modified_seconds > min_age_seconds]
    entries = {garbage.part: list(garbage.entries) for garbage in found}
    console = plain_console()
    if options.dry_run:
        paths = [f"{storage.uri}/{entry.path}" for part in left for entry in part.files]
        paths += [f"{garbage.storage.uri}/{path}" for garbage in found for path in garbage.paths]
        paths += [f"{storage.uri}/{entry.path}" for entry in leftovers]
        for path in paths if not options.json else ():
            console.print(path, markup=False)
    else:
        with _progress("removing", sum(map(len, entries.values()))) as advance:
            entries = collect(storage, found, lambda _: advance())
            remove_leftovers(storage, leftovers)
    if options.json:
        about = {part.name: [entry.path for entry in part.files] for part in left}
        content = _gc_content(found, entries, leftovers, is_dry=options.dry_run)
        print_json({**content, **({"left_behind": about} if options.left_behind else {})})
        return 0
    rows = [(g.part, ", ".join(map(str, g.kept)), *_gc_numbers(entries[g.part])) for g in found]
    rows += [(f"{part.name}, left behind", "", *_gc_numbers(part.files)) for part in left]
    if leftovers:
        rows.append(("files of dead writers and earlier catalogs", "", *_gc_numbers(leftovers)))
    title = "would be removed (--dry-run)" if options.dry_run else "removed"
    console.print(grid(title, ("part", "snapshots kept", "shards#", "files#", "size#"), rows))
    for line in _gc_notes(found, entries):
        console.print(line, markup=False)
    for part in young_parts:
        console.print(f"{part.name} stays: it has files that are younger than a day, or use --now", markup=False)
    return 0


def _parts_to_remove(output: Storage, options: argparse.Namespace) -> list[LeftPart]:
    """The parts that `--left-behind` removes; none without it."""
    if not options.left_behind:
        return []
    if options.config is None:
        raise ConfigError("--left-behind needs --config FILE.yaml, which says what is still wanted")
    return _left_behind(output, options.config)


def _left_behind(output: Storage, file: str) -> list[LeftPart]:
    """The parts of an output that a YAML file does not name.

    Raises:
        ConfigError: the file is invalid, or the output has no catalog.
        CatalogError: the output belongs to another data set.
    """
    config, header = load_config(Path(file)), read_header(output)
    if header is None:
        raise ConfigError(f"{output.uri}: has no catalog, so it is not known whether {file} is its YAML file")
    check_owner(header.totals, config, f"{output.uri}/{HEADER_PATH}")
    return left_behind(output, parts_of_yaml(config))


def _check_no_build(output: Storage, *, is_known: bool) -> None:
    """Raise `BuildError` if something may be writing to an output, unless the user knows better."""
    if is_known:
        return
    if not isinstance(output, LocalStorage):
        raise BuildError(
            f"{output.uri}: a bucket does not show whether a build is running: stop all builds and sensors, and pass "
            "--no-build-is-running"
        )
    if signs := signs_of_builds(output):
        raise BuildError(
            f"{output.uri}: nothing was removed, because a build may be running: {'; '.join(signs)}. Let builds end, "
            "or build once more; or stop builds and sensors, and pass --no-build-is-running"
        )


def _gc_content(
    found: Sequence[Garbage],
    removed: Mapping[str, Sequence[StoredObject]],
    leftovers: Sequence[StoredObject],
    *,
    is_dry: bool,
) -> dict[str, object]:
    parts = [
        {
            "part": garbage.part,
            "snapshots_kept": garbage.kept,
            "files": [{"path": entry.path, "num_bytes": entry.num_bytes} for entry in removed[garbage.part]],
            "num_young": garbage.num_young + len(garbage.young),
        }
        for garbage in found
    ]
    paths = [entry.path for entry in leftovers]
    return {"dry_run": is_dry, "parts": parts, "leftovers": paths, "notes": list(_gc_notes(found, removed))}


def _gc_numbers(entries: Sequence[StoredObject]) -> tuple[int, int, str]:
    """Numbers of shards and files, and bytes, of removed files."""
    num_shards = sum(entry.path.endswith(".tar") for entry in entries)
    return num_shards, len(entries), bytes_text(sum(entry.num_bytes for entry in entries))


def _gc_notes(found: Sequence[Garbage], removed: Mapping[str, Sequence[StoredObject]]) -> Iterator[str]:
    """Notes on files that stay although no snapshot needs them, and on records of earlier gcs."""
    if num_files := sum(garbage.num_young + len(garbage.young) for garbage in found):
        yield f"{num_files} more files are younger than a day and stay until then: a build may be running"
    if num_spared := sum(len(garbage.entries) - len(removed[garbage.part]) for garbage in found):
        yield f"{num_spared} more files stay: a build has named them while gc was running"
    for garbage in found:
        for record in garbage.unfinished:
            yield (
                f"{garbage.storage.uri}/{record}: record of a gc that is running, or was killed on another machine; "
                "builds do not use the names in it. The first gc after thirty days removes it; delete it if no gc is "
                "running"
            )


def run_find(options: argparse.Namespace) -> int:
    """`headrace find`."""
    located = locate(options.path)
    located.check_snapshots("headrace find")
    if not located.is_output:
        raise ConfigError(f"{options.path}: is one shard folder of an output; name the output itself")
    with _progress("searching", None) as advance:
        keys, found = find_samples(located.storage, options.key, advance)
    if options.json:
        print_json({"output": located.storage.uri, "asked": options.key, "keys": keys, "found": found})
    elif found:
        rows = [(one.part, one.key, one.file, ", ".join(map(str, one.snapshots)) or "none") for one in found]
        plain_console().print(grid(options.key, ("part", "key", "file", "snapshots"), rows))
    else:
        hint = " (a condition is about the newest snapshot; ask by key or path to search older ones)"
        about = hint if not keys and is_condition(options.key) else ""
        said = f"{options.key}: in no file of {located.storage.uri}{about}"
        plain_console().print(said, highlight=False, soft_wrap=True)
    return 0 if found else 1


def run_simulate(options: argparse.Namespace) -> int:
    """`headrace simulate`."""
    from headrace.cli import simulation  # noqa: PLC0415 - it imports torch, which other commands need not wait for

    with _progress("simulating", None) as advance:
        found = simulation.simulate(options, advance)
    if options.json:
        print_json({**plain(found), "advice": list(simulation.advice(found, options))})
    else:
        simulation.print_simulation(plain_console(), found, options)
    return 0


def run_seen(options: argparse.Namespace) -> int:
    """`headrace seen`."""
    from headrace.cli import asking  # noqa: PLC0415 - as above

    with _progress("searching", None) as advance:
        return asking.run_seen(options, advance)


def run_batch(options: argparse.Namespace) -> int:
    """`headrace batch`."""
    from headrace.cli import asking  # noqa: PLC0415 - as above

    return asking.run_batch(options)


def run_bill(options: argparse.Namespace) -> int:
    """`headrace bill`."""
    from headrace.cli import asking  # noqa: PLC0415 - as above

    return asking.run_bill(options)


COMMANDS: dict[str, Command] = {
    "inspect": run_inspect,
    "verify": run_verify,
    "index": run_index,
    "view": run_view,
    "export": run_export,
    "columns": run_columns,
    "find": run_find,
    "gc": run_gc,
    "simulate": run_simulate,
    "seen": run_seen,
    "batch": run_batch,
    "bill": run_bill,
}


def _numbers_of(verdict: Verdict) -> dict[str, int]:
    return {
        "num_shards": verdict.num_shards,
        "num_samples": verdict.num_samples,
        "num_bytes": verdict.num_bytes,
        "num_decoded": verdict.num_decoded,
    }


def _judgement(num_faults: int) -> str:
    if num_faults == 0:
        return "no faults"
    return "1 fault" if num_faults == 1 else f"{num_faults} faults"


@contextlib.contextmanager
def _progress(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    """Show a progress bar if standard error is a terminal. Yields a function to call after each step."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = plain_console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
