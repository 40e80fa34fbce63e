"""The command of `build.py`: finds the YAML file, builds the data set, prints what changed."""

import difflib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from rich.console import Console

from headrace.assemble.reconcile import latent_settings
from headrace.assemble.views import WantedView, awaited_sets
from headrace.catalog.stored.column_header import read_table_header
from headrace.catalog.stored.header import REJECTED_PATH
from headrace.config.dataset import DatasetConfig, load_config
from headrace.config.folder import clash, load_each
from headrace.errors import ConfigError, HeadraceError
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import newest_snapshot
from headrace_dagster.build_command.account import nothing_changed, show_changes
from headrace_dagster.build_command.driver import DatasetBuild
from headrace_dagster.build_command.instance import open_instance
from headrace_dagster.build_command.interrupts import Interrupts
from headrace_dagster.build_command.ledger import Ledger
from headrace_dagster.build_command.repository import REPOSITORY_ROOT, datasets_folder
from headrace_dagster.build_command.runs import Runner
from headrace_dagster.build_command.terminal import TerminalProgress, show_faults, show_snapshots, show_warnings
from headrace_dagster.resources.encoders import EncoderLoader
from headrace_dagster.resources.storage import StorageResource


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Arguments of the command line.

    Attributes:
        name: name of the data set.
        folder: folder of the YAML files; None for the default one.
        select: assets to bring up to date; empty for all of them.
        table: whether the table of what the data set holds is printed even if nothing changed.
        verbose: whether Dagster's own log is printed.
    """

    name: str
    folder: Path | None
    select: tuple[str, ...]
    table: bool
    verbose: bool


def build_dataset(command: CommandLine, console: Console) -> int:
    """Bring one data set up to date. Returns the exit code.

    Raises:
        ConfigError: there is no such data set, its YAML is invalid, or the selection names no asset of it.
    """
    path = _yaml_of(command.name, command.folder)
    config = load_config(path)
    _check_siblings(config, path)
    _check_encoders(config, path)
    dataset, storage = ProjectDataset.named(config), StorageResource(root=str(REPOSITORY_ROOT))
    progress = TerminalProgress(console)
    with Interrupts() as interrupts, open_instance() as instance:
        resources = {
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
            outcomes = DatasetBuild(dataset, runner, storage, progress, selected, ledger).run()
        except KeyboardInterrupt:
            show_changes(console, ledger.changes(runner.outcomes), rejected_at)
            raise
    failed = [outcome for outcome in outcomes if outcome.faults]
    changes = ledger.changes(outcomes)
    is_idle = changes.is_nothing and not failed
    if is_idle:
        line = nothing_changed(config.name, changes, _held(config, storage), rejected_at)
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        show_changes(console, changes, rejected_at)
        for line in (*_columns_left(config, storage), *_waiting_views(config, storage)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if command.table or not is_idle:
        _show(config, storage, console)
    show_warnings(console, outcomes)
    show_faults(console, failed)
    return 1 if failed else 0


def _columns_left(config: DatasetConfig, storage: StorageResource) -> Iterator[str]:
    """A line for each table of columns with rows that match no sample, or without a row for some samples."""
    output = storage.output(config)
    for entry in config.columns:
        header = read_table_header(output, entry.name)
        if entry.optional and not storage.has_table(entry):
            left = "not made yet" if header is None else "left as they were"
            yield f"columns {entry.name}: the table {entry.table.uri} is not there; these columns are {left}"
        if header is not None and header.num_unmatched:
            where = f"{output.uri}/{header.unmatched}"
            yield f"columns {entry.name}: {header.num_unmatched} of {header.num_rows} rows match no sample: {where}"
        if header is not None and header.num_without:
            what = "samples" if header.on == "key" else "recordings"
            yield f"columns {entry.name}: {header.num_without} {what} have no row, so their values are null"


def _waiting_views(config: DatasetConfig, storage: StorageResource) -> Iterator[str]:
    """A line for each view that waits for an optional table."""
    for name in config.views:
        if awaited := awaited_sets(storage.output(config), WantedView.of(config, name)):
            yield f"view {name}: waits for the table of the columns {' or '.join(awaited)}"


def _check_siblings(config: DatasetConfig, path: Path) -> None:
    """Raise if this data set shares with another one what two must not share. Invalid files of others are ignored."""
    siblings, _ = load_each(path.parent)
    if (fault := clash(path, config, siblings, REPOSITORY_ROOT)) is not None:
        raise ConfigError(fault)


def _check_encoders(config: DatasetConfig, path: Path) -> None:
    """Raise for invalid settings of encoders before hours of audio are built. Missing weights are no error yet."""
    for number, latents in enumerate(config.latents):
        try:
            latent_settings(latents)
        except ConfigError as error:
            raise ConfigError(f"{path}: latents[{number}] ({latents.name}).encoder: {error}") from error
        except HeadraceError:
            continue


def _yaml_of(name: str, folder: Path | None) -> Path:
    datasets = folder or datasets_folder()
    if not datasets.is_dir():
        raise ConfigError(f"{datasets}: no such folder of data sets; set HEADRACE_DATASETS or pass --datasets")
    for suffix in (".yaml", ".yml"):
        if (path := datasets / (name.removesuffix(suffix) + suffix)).is_file():
            return path
    known = sorted(path.stem for path in datasets.glob("*.y*ml"))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ConfigError(f"{name}: no such data set; {hint}{datasets} has {', '.join(known) or 'no YAML files'}")


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
        console.print(f"{part}: snapshot {numbered.number} in {parts[part].uri}", highlight=False, soft_wrap=True)


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
