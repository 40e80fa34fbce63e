"""The command behind `build.py`: find the YAML, build, show what came of it."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from rich.console import Console

from assets.keys import DatasetKeys
from building.driver import Build
from building.instance import open_instance
from building.interrupts import Interrupts
from building.runs import Runner
from building.terminal import TerminalProgress, show_faults, show_rejected, show_snapshots
from headrace.catalog_files import read_catalog
from headrace.catalog_summary import REJECTED_PATH
from headrace.config import DatasetConfig, load_config
from headrace.config_folder import clash, load_each
from headrace.errors import ConfigError, HeadraceError, NotFoundError
from headrace.reconcile import latent_settings
from headrace.snapshots import NumberedSnapshot, read_snapshot
from resources.encoders import EncoderLoader
from resources.storage import REPOSITORY_ROOT, StorageResource


def build_dataset(name: str, folder: Path | None, select: Sequence[str], console: Console, *, verbose: bool) -> int:
    """Bring one data set up to date. Returns the exit code.

    Raises:
        ConfigError: there is no such data set, its YAML is wrong, or the selection names no asset of it.
    """
    path = _yaml_of(name, folder)
    config = load_config(path)
    _check_siblings(config, path)
    _check_encoders(config, path)
    storage = StorageResource()
    progress = TerminalProgress(console)
    with Interrupts() as interrupts, open_instance() as instance:
        resources = {"storage": storage, "progress": progress, "encoders": EncoderLoader(keep=True)}
        log_level = "INFO" if verbose else "CRITICAL"
        runner = Runner(config, instance, resources, log_level=log_level, before_run=interrupts.check)
        selected = _selected(config, runner, select)
        outcomes = Build(config, runner, storage, progress, selected).run()
    failed = [outcome for outcome in outcomes if outcome.faults]
    _show(config, storage, console)
    show_faults(console, failed)
    return 1 if failed else 0


def _check_siblings(config: DatasetConfig, path: Path) -> None:
    """Refuse what two data sets must not share; a sibling that is wrong itself is no matter here."""
    siblings, _ = load_each(path.parent)
    if (fault := clash(path, config, siblings, REPOSITORY_ROOT)) is not None:
        raise ConfigError(fault)


def _check_encoders(config: DatasetConfig, path: Path) -> None:
    """Refuse wrong settings before hours of audio are built; weights that are not there yet may come meanwhile."""
    for number, latents in enumerate(config.latents):
        try:
            latent_settings(latents)
        except ConfigError as error:
            raise ConfigError(f"{path}: latents.{number}.encoder: {error}") from error
        except HeadraceError:
            continue


def _yaml_of(name: str, folder: Path | None) -> Path:
    datasets = folder or REPOSITORY_ROOT / os.environ.get("HEADRACE_DATASETS", "datasets")
    if not datasets.is_dir():
        raise ConfigError(f"{datasets}: no such folder of data sets; set HEADRACE_DATASETS or pass --datasets")
    for suffix in (".yaml", ".yml"):
        if (path := datasets / (name.removesuffix(suffix) + suffix)).is_file():
            return path
    known = sorted(path.stem for path in datasets.glob("*.y*ml"))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ConfigError(f"{name}: no such data set; {hint}{datasets} has {', '.join(known) or 'no YAML files'}")


def _selected(config: DatasetConfig, runner: Runner, select: Sequence[str]) -> frozenset[dg.AssetKey]:
    """The assets that `--select` names; all without it."""
    known = runner.keys()
    keys = DatasetKeys(config.name)
    names = [name.strip() for text in select for name in text.split(",") if name.strip()]
    if select and not names:
        raise ConfigError("--select names nothing: leave it out to build everything")
    found: set[dg.AssetKey] = set()
    for name in names:
        key = dg.AssetKey([config.name, *name.removeprefix(f"{config.name}/").split("/")])
        if key == keys.recordings:  # no run makes them: that of the catalog says which of them changed
            key = keys.catalog
        matching = {key} if key in known else runner.select(name)
        if not matching:
            offered = ", ".join("/".join(key.path[1:]) for key in known)
            raise ConfigError(f"--select {name}: {config.name} has no such asset; it has {offered}")
        found |= matching
    return frozenset(found or known)


def _show(config: DatasetConfig, storage: StorageResource, console: Console) -> None:
    """The summary: what there is, what was refused, where it lies."""
    output = storage.output(config)
    parts = storage.parts(config)
    snapshots: dict[str, NumberedSnapshot] = {}
    for part, shards in parts.items():
        try:
            snapshots[part] = read_snapshot(shards)
        except NotFoundError:
            continue
    if snapshots:
        show_snapshots(console, snapshots)
    catalog = read_catalog(output)
    if catalog is not None:
        show_rejected(console, catalog.rejected, f"{output.uri}/{REJECTED_PATH}")
    for part, numbered in snapshots.items():
        console.print(f"{part}: snapshot {numbered.number} in {parts[part].uri}", highlight=False, soft_wrap=True)
