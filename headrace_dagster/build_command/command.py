"""Builds one data set: reads its YAML file, runs what is stale, and prints what changed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import dagster as dg
from rich.console import Console

from headrace.assemble.changes import BuildChanges
from headrace.assemble.feature_values import feature_rows
from headrace.assemble.reconcile import latent_settings
from headrace.assemble.views import WantedView, awaited_sets
from headrace.catalog.stored.column_header import read_table_header
from headrace.catalog.stored.header import REJECTED_PATH
from headrace.cli.as_json import plain, print_json
from headrace.cli.tables import plain_console
from headrace.config.dataset import DatasetConfig, load_config
from headrace.config.folder import clash, load_each
from headrace.errors import ConfigError, HeadraceError
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.upkeep.left_behind import left_behind, left_behind_text, parts_of_yaml
from headrace_dagster.assets.factory import default_resources
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import newest_snapshot
from headrace_dagster.build_command.account import nothing_changed, show_changes
from headrace_dagster.build_command.driver import DatasetBuild
from headrace_dagster.build_command.instance import open_instance
from headrace_dagster.build_command.interrupts import Interrupts
from headrace_dagster.build_command.ledger import Ledger
from headrace_dagster.build_command.place import Place
from headrace_dagster.build_command.runs import Runner, RunOutcome
from headrace_dagster.build_command.settled import is_settled
from headrace_dagster.build_command.standing import (
    Standing,
    events_file,
    history_stamp,
    store,
    things_digest,
    with_seconds,
)
from headrace_dagster.build_command.terminal import TerminalProgress, show_faults, show_snapshots, show_warnings
from headrace_dagster.resources.dagster_internals.open_databases import closed_events
from headrace_dagster.resources.encoders import EncoderLoader
from headrace_dagster.resources.storage import StorageResource


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Arguments of the command line.

    Attributes:
        place: the data set.
        select: assets to bring up to date; empty for all of them.
        table: whether the table of what the data set holds is printed even if nothing changed.
        json: whether one JSON object is printed on standard output.
        verbose: whether Dagster's own log is printed.
    """

    place: Place
    select: tuple[str, ...] = ()
    table: bool = False
    json: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class _Built:
    """The result of a build, with `things` and `history` of `Standing`; empty if something is left to do or to say.

    `absent` has a line for each optional table that is not there, by the asset of its columns.
    """

    config: DatasetConfig
    storage: StorageResource
    outcomes: list[RunOutcome]
    changes: BuildChanges
    rejected_at: str
    absent: Mapping[str, str]
    things: str = ""
    history: str = ""

    @property
    def failed(self) -> list[RunOutcome]:
        return [outcome for outcome in self.outcomes if outcome.faults]

    @property
    def is_idle(self) -> bool:
        return self.changes.is_nothing and not self.failed


def build_dataset(command: CommandLine) -> int:
    """Bring one data set up to date. Returns the exit code.

    Raises:
        ConfigError: the YAML file is invalid, or the selection names no asset of the data set.
    """
    console = plain_console(stderr=command.json)
    built = _built(command, console)
    notes = [*built.absent.values(), *_left_behind(built.config, built.storage, command.place)]
    if built.is_idle:
        _say(console, with_seconds(_nothing_changed(built), built.changes.seconds))
    else:
        show_changes(console, built.changes, built.rejected_at)
        for line in (*_columns_left(built.config, built.storage), *_waiting_views(built.config, built.storage)):
            _say(console, line)
    for line in notes:
        _say(console, line)
    if command.table or not built.is_idle:
        _show(built.config, built.storage, console)
    show_warnings(console, built.outcomes)
    show_faults(console, built.failed)
    if command.json:
        print_json(_content(built))
    if built.history and built.history == history_stamp(command.place):
        _store_standing(command.place, built, notes)
    return 1 if built.failed else 0


def _store_standing(place: Place, built: _Built, notes: list[str]) -> None:
    """Store what the next build says if nothing changes until then."""
    changes = Ledger(built.storage.output(built.config), time.perf_counter).changes([])
    idle = replace(built, outcomes=[], changes=changes)
    store(place, Standing(built.things, built.history, _nothing_changed(idle), notes, plain(_content(idle))))


def _nothing_changed(built: _Built) -> str:
    """The line of a build that had nothing to do, without its seconds."""
    held = _held(built.config, built.storage)
    return nothing_changed(built.config.name, built.changes, held, built.rejected_at)


def _built(command: CommandLine, console: Console) -> _Built:
    """Run what is stale. What was changed before Ctrl-C is printed."""
    place = command.place
    config = load_config(place.yaml)
    _check_siblings(config, place)
    _check_encoders(config, place.yaml)
    dataset, storage = ProjectDataset.named(config), StorageResource(root=str(place.root))
    progress = TerminalProgress(console)
    with Interrupts() as interrupts, open_instance(place.home) as instance:
        resources = {
            **default_resources(place.root),
            "headrace_storage": storage,
            "headrace_progress": progress,
            "headrace_encoders": EncoderLoader(keep=True),
        }
        log_level = "INFO" if command.verbose else "CRITICAL"
        runner = Runner(dataset, instance, resources, log_level=log_level, before_run=interrupts.check)
        selected = _selected(dataset, runner, command.select)
        ledger = Ledger(storage.output(config), time.perf_counter)
        rejected_at = f"{storage.output(config).uri}/{REJECTED_PATH}"
        try:
            build = DatasetBuild(dataset, runner, storage, progress, selected, ledger)
            outcomes = build.run()
            outcomes += build.not_made()
        except KeyboardInterrupt:
            show_changes(console, ledger.changes(runner.outcomes), rejected_at)
            raise
        changes = ledger.changes(outcomes)
        is_quiet = not command.select and not any(one.faults or one.warnings for one in outcomes)
        things, history = things_digest(place, config, storage) if is_quiet else "", ""
        if things and closed_events(instance) == events_file(place):
            history = history_stamp(place)  # before what follows reads the records: a later one changes it
            history = history if is_settled(build) else ""
    absent = _absent_tables(dataset, storage)
    return _Built(config, storage, outcomes, changes, rejected_at, absent, things, history)


def _content(built: _Built) -> dict[str, object]:
    """The object that `--json` prints."""
    parts = built.storage.parts(built.config)
    return {
        "name": built.config.name,
        "is_changed": not built.is_idle,
        "changes": built.changes,
        "snapshots": {
            part: {"number": found.number, "uri": parts[part].uri, "splits": found.snapshot.splits}
            for part, found in _snapshots(built.config, built.storage).items()
        },
        "warnings": [
            *({"asset": one.name, "warning": text} for one in built.outcomes for text in one.warnings),
            *({"asset": key, "warning": text} for key, text in built.absent.items()),
        ],
        "faults": [
            {"asset": one.name, "fault": text, "run": one.run_id} for one in built.failed for text in one.faults
        ],
    }


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _columns_left(config: DatasetConfig, storage: StorageResource) -> Iterator[str]:
    """A line for each table of columns with rows that match no sample, or without a row for some samples."""
    output = storage.output(config)
    for entry in config.columns:
        header = read_table_header(output, entry.name)
        if header is not None and header.num_unmatched:
            where = f"{output.uri}/{header.unmatched}"
            yield f"columns {entry.name}: {header.num_unmatched} of {header.num_rows} rows match no sample: {where}"
        if header is not None and header.num_without:
            what = "samples" if header.on == "key" else "recordings"
            yield f"columns {entry.name}: {header.num_without} {what} have no row, so their values are null"


def _absent_tables(dataset: ProjectDataset, storage: StorageResource) -> dict[str, str]:
    """Asset → a line, for each optional table of columns that is not there."""
    found = {}
    for entry in dataset.config.columns:
        if entry.optional and not storage.has_table(entry):
            is_new = read_table_header(storage.output(dataset.config), entry.name) is None
            left = "not made yet" if is_new else "left as they were"
            text = f"columns {entry.name}: the table {entry.table.uri} is not there; these columns are {left}"
            found["/".join(dataset.keys.columns(entry.name).path)] = text
    return found


def _left_behind(config: DatasetConfig, storage: StorageResource, place: Place) -> Iterator[str]:
    """A line about sets and views that are no longer in the YAML; none without any."""
    output = storage.output(config)
    if sizes := {part.name: part.num_bytes for part in left_behind(output, parts_of_yaml(config))}:
        yield left_behind_text(sizes, output.uri, str(place.yaml))


def _waiting_views(config: DatasetConfig, storage: StorageResource) -> Iterator[str]:
    """A line for each view that waits for an optional table."""
    for name in config.views:
        if awaited := awaited_sets(storage.output(config), WantedView.of(config, name)):
            yield f"view {name}: waits for the table of the columns {' or '.join(awaited)}"


def _check_siblings(config: DatasetConfig, place: Place) -> None:
    """Raise if this data set shares with another one what two must not share. Invalid files of others are ignored."""
    siblings, _ = load_each(place.yaml.parent)
    if (fault := clash(place.yaml, config, siblings, place.root)) is not None:
        raise ConfigError(fault)


def _check_encoders(config: DatasetConfig, path: Path) -> None:
    """Raise for invalid encoders and features before hours of audio are built. Missing weights are no error yet."""
    checks: list[tuple[str, Callable[[], object]]] = [
        (f"latents[{number}] ({one.name}).encoder", partial(latent_settings, one))
        for number, one in enumerate(config.latents)
    ]
    checks += [
        (f"features[{number}] ({one.name})", partial(feature_rows, one)) for number, one in enumerate(config.features)
    ]
    for place, check in checks:
        try:
            check()
        except ConfigError as error:
            raise ConfigError(f"{path}: {place}: {error}") from error
        except HeadraceError:
            continue


def _selected(dataset: ProjectDataset, runner: Runner, select: Sequence[str]) -> frozenset[dg.AssetKey]:
    """The assets that `--select` names, or all assets without it."""
    known = runner.keys()
    config, keys = dataset.config, dataset.keys
    names = [name.strip() for text in select for name in text.split(",") if name.strip()]
    if select and not names:
        raise ConfigError("--select is empty: name assets, or leave it out to build everything")
    found: set[dg.AssetKey] = set()
    for name in names:
        key = dg.AssetKey([config.name, *name.removeprefix(f"{config.name}/").split("/")])
        if key == keys.recordings:  # an external asset, which the run of the catalog updates
            key = keys.catalog
        matching = {key} if key in known else runner.select(name)
        if not matching:
            offered = ", ".join("/".join(key.path[1:]) for key in known)
            raise ConfigError(f"--select {name}: {config.name} has no such asset; it has {offered}")
        found |= matching
    return frozenset(found or known)


def _show(config: DatasetConfig, storage: StorageResource, console: Console) -> None:
    """Print the newest snapshots: what each holds, and its URI."""
    parts, snapshots = storage.parts(config), _snapshots(config, storage)
    if snapshots:
        show_snapshots(console, snapshots)
    for part, numbered in snapshots.items():
        _say(console, f"{part}: snapshot {numbered.number} in {parts[part].uri}")


def _held(config: DatasetConfig, storage: StorageResource) -> str:
    """The newest snapshots in one line of text."""
    found = [
        f"{part}: {numbered.snapshot.num_shards} shards in snapshot {numbered.number}"
        for part, numbered in _snapshots(config, storage).items()
    ]
    return ", ".join(found) or "no snapshot yet"


def _snapshots(config: DatasetConfig, storage: StorageResource) -> dict[str, NumberedSnapshot]:
    """The newest snapshot of each part that has one."""
    found = {part: newest_snapshot(shards) for part, shards in storage.parts(config).items()}
    return {part: numbered for part, numbered in found.items() if numbered is not None}
