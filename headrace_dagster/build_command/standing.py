"""Finds without Dagster that a build has nothing to do.

Importing Dagster takes longer than all that such a build reads. So a build that leaves nothing to do stores in the home
of Dagster a digest of all that this depends on besides the source, and what the next build will say. The catalog has
the files of the source. If one of them differs, or anything is not certain, Dagster decides (docs/design/0152).
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.assemble.centroids import with_centroids
from headrace.assemble.dataset_stores import DatasetStores
from headrace.assemble.feature_values import feature_rows
from headrace.assemble.reconcile import latent_settings
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.unchanged import code_digest, is_unchanged, scan_inputs
from headrace.config.dataset import DatasetConfig, load_config
from headrace.errors import HeadraceError
from headrace.format.typed_json import json_object
from headrace.sources.sources import Corpus
from headrace.stores.storage import LocalStorage
from headrace_dagster.build_command.place import Place, home_path

_FOLDER = "up_to_date"
_EVENTS = "history/runs/index.db"
_OWN_STORAGE = {"storage", "event_log_storage"}
_PACKAGE = Path(__file__).parents[1]
_YAML_SUFFIXES = {".yaml", ".yml"}


@dataclass(frozen=True, slots=True)
class Standing:
    """A data set that is up to date.

    Attributes:
        things: digest of code, YAML files, tables and output, taken before Dagster's records were found complete.
        history: `history_stamp` after that.
        said: the line of a build that had nothing to do, without its seconds.
        notes: lines after it.
        content: the object of `--json`.
    """

    things: str
    history: str
    said: str
    notes: list[str]
    content: dict[str, Any]


def with_seconds(said: str, seconds: float) -> str:
    """The line of a build that had nothing to do, with its seconds."""
    return f"{said} ({seconds:.1f} s)"


def up_to_date(place: Place) -> Standing | None:
    """The stored standing, if it is certain that nothing has changed since; else None. Lists the source."""
    try:
        stored = Standing(**json_object(_file(place).read_bytes()))
        if stored.history != history_stamp(place):
            return None
        config, stores = load_config(place.yaml), DatasetStores(str(place.root))
        source = stores.source(config)
        inputs = _scan_inputs(config, stores, source)
        if stored.things != _things(place, config, stores, inputs):
            return None
        is_same = is_unchanged(source, inputs, stores.output(config), ScanRuntime())
    except (OSError, ValueError, TypeError, HeadraceError):  # the build itself reports what is wrong
        return None
    return stored if is_same else None


def store(place: Place, standing: Standing) -> None:
    """Store the result of a build that left nothing to do; a failure is no error."""
    file = _file(place)
    with contextlib.suppress(OSError, HeadraceError):
        LocalStorage(file.parent).write(file.name, json.dumps(asdict(standing)).encode())


def things_digest(place: Place, config: DatasetConfig, stores: DatasetStores) -> str:
    """Digest of all that decides what is stale, besides source and history; empty if that is not known."""
    try:
        return _things(place, config, stores, _scan_inputs(config, stores, stores.source(config)))
    except (OSError, HeadraceError):
        return ""


def _scan_inputs(config: DatasetConfig, stores: DatasetStores, source: Corpus) -> str:
    return scan_inputs(config, source.uri, stores.table_stamps(config), ScanRuntime())


def _things(place: Place, config: DatasetConfig, stores: DatasetStores, inputs: str) -> str:
    if not inputs:
        return ""
    latents = [(one, stores.latents(config, one.name)) for one in config.latents]
    settings = [str(latent_settings(with_centroids(one, folder))) for one, folder in latents]
    settings += map(feature_rows, config.features)
    said = [inputs, str(place), *settings, *_yaml_files(place.yaml.parent), code_digest(_PACKAGE)]
    digest = hashlib.sha256("\0".join(said).encode())
    for entry in stores.output(config).list():
        digest.update(f"{entry.path} {entry.num_bytes} {entry.modified_seconds} {entry.tag}\n".encode())
    return digest.hexdigest()


def events_file(place: Place) -> Path:
    """The file in which Dagster records what happens to assets, if its home has the records."""
    return home_path(place.home) / _EVENTS


def history_stamp(place: Place) -> str:
    """A text that changes when Dagster records anything of an asset; empty if that is not in a file of its home."""
    home = home_path(place.home)
    try:
        settings = yaml.safe_load((home / "dagster.yaml").read_bytes()) or {}
        if not isinstance(settings, dict) or _OWN_STORAGE & settings.keys():
            return ""
        found = [events_file(place).stat()]
    except (OSError, yaml.YAMLError):
        return ""
    with contextlib.suppress(FileNotFoundError):
        found += [log for log in [(home / f"{_EVENTS}-wal").stat()] if log.st_size]  # has what is not yet in the file
    return " ".join(f"{one.st_size} {one.st_mtime_ns}" for one in found)


def _yaml_files(folder: Path) -> Iterator[str]:
    """The data sets of a folder: two must not share an output."""
    for path in sorted(folder.iterdir()):
        if path.suffix in _YAML_SUFFIXES:
            yield f"{path.name} {path.read_text(encoding='utf-8', errors='replace')}"


def _file(place: Place) -> Path:
    """The file of a standing: one home may have the history of several data sets."""
    digest = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    return home_path(place.home) / _FOLDER / f"{place.yaml.stem}-{digest}.json"
