"""Evaluates a condition on the columns of an output, for `where=`: it makes a view in the cache folder, once.

The view is kept by the condition, the audio snapshot, and the snapshots of the columns that the condition reads. Only
making it needs polars (`headrace.views.making`); a view that is kept is read with numpy alone.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import FormatError, MissingDependencyError, NotFoundError, StorageError
from headrace.format.beside.column_files import specs_of
from headrace.format.beside.column_sets import ColumnSet, fitting_columns
from headrace.format.beside.view_files import ViewOrigin, commit_view, read_counts, read_totals, read_view
from headrace.format.beside.views import ColumnsOrigin, NumberedView, ViewDefinition
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, snapshot_numbers
from headrace.stores.storage import LocalStorage, Storage
from headrace.streaming.concurrency.host_lock import locked
from headrace.views.definitions import sets_of
from headrace.views.names import METADATA, ColumnNames, NoColumnError
from headrace.views.syntax import names_in

_COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class WhereCondition:
    """A condition to evaluate.

    Attributes:
        condition: as the user wrote it.
        output: the output whose columns it reads.
        cache_folder: the view is kept in its folder `views`.
        pins: set → number of its snapshot; empty for the newest that fit the audio snapshot.
    """

    condition: str
    output: Storage
    cache_folder: Path
    pins: Mapping[str, int]

    def view(self, audio: NumberedSnapshot, table: ShardTable) -> tuple[Storage, NumberedView]:
        """The samples of an audio snapshot that fulfil the condition.

        Args:
            audio: the audio snapshot.
            table: its table of shards.

        Returns:
            The folder of the view, and its snapshot.

        Raises:
            ConfigError: the condition is not valid for the columns that fit the snapshot, or no sample fulfils it.
            MissingDependencyError: polars is not installed, and no process of this host has evaluated it before.
            NotFoundError: columns that are pinned are gone.
            StorageError: the cache folder cannot be written, or a store failed.
        """
        sets = self._sets(audio)
        used = {name: sets[name] for name in self._used(sets)}
        known = {name: found.snapshot.snapshot.fingerprint for name, found in used.items()}
        origin = json.dumps([self.condition, audio.snapshot.fingerprint, known], sort_keys=True)
        digest = hashlib.sha256(origin.encode()).hexdigest()[:32]
        storage = LocalStorage(self.cache_folder / "views" / f"where-{digest}")
        with locked(storage.root):  # other ranks of the host wait for the one that evaluates it
            if (kept := _kept(storage)) is not None:
                return storage, kept
            return storage, self._made(storage, ViewOrigin(ViewDefinition(self.condition), audio, table), used)

    def _made(self, storage: Storage, origin: ViewOrigin, sets: Mapping[str, ColumnSet]) -> NumberedView:
        try:
            from headrace.views.making import ViewData, ViewMaking  # noqa: PLC0415 - polars, which training lacks
        except ImportError as error:
            raise MissingDependencyError(
                f"where={self.condition!r} is evaluated by polars, which is not installed: pip install "
                '"headrace[where]"; or build a view with this condition (`views:` in the YAML file of the data set), '
                "which needs no package"
            ) from error
        making = ViewMaking(origin.definition, ViewData(origin.audio, origin.table, sets))
        made = ViewOrigin(origin.definition, origin.audio, origin.table, making.columns)
        try:
            return commit_view(storage, made, making.parts())[0]
        except StorageError as error:
            if storage.uri not in str(error):
                raise
            raise StorageError(
                f"{error}; the samples that fulfil where={self.condition!r} are listed there: make room, pass another "
                "local=…, or build a view with this condition"
            ) from error

    def _used(self, sets: Mapping[str, ColumnSet]) -> tuple[str, ...]:
        """Names of the sets that the condition reads."""
        names = ColumnNames({name: found.specs for name, found in sets.items()})
        return sets_of(ViewDefinition(self.condition), names)

    def _sets(self, audio: NumberedSnapshot) -> dict[str, ColumnSet]:
        """The sets that fit a snapshot: those that are pinned, or that the condition names, or all for other names."""
        if self.pins:
            return dict(self._fitting(sorted(self.pins), audio))
        names = names_in(self.condition)
        found = dict(self._fitting(sorted({METADATA, *(parts[0] for parts in names if len(parts) > 1)}), audio))
        table = ColumnNames({METADATA: found[METADATA].specs} if METADATA in found else {})
        try:
            table.meant_by([parts for parts in names if len(parts) == 1], "where")
            self._used(found)
        except NoColumnError:  # listing all sets takes long where they have a million files
            found |= dict(self._fitting(sorted(self._all_sets() - found.keys()), audio))
        return found

    def _fitting(self, names: list[str], audio: NumberedSnapshot) -> Iterator[tuple[str, ColumnSet]]:
        for name in names:
            storage = self.output.at(f"{_COLUMNS}/{name}")
            if (pin := self.pins.get(name)) is not None:
                pinned = read_snapshot(storage, pin)
                yield name, ColumnSet(storage, pinned, specs_of(pinned.snapshot))
                continue
            try:
                yield name, fitting_columns(storage, audio.snapshot)
            except NotFoundError:  # it may be that the condition does not need it
                continue

    def _all_sets(self) -> set[str]:
        return {entry.path.split("/")[1] for entry in self.output.list(f"{_COLUMNS}/")}


def _kept(storage: LocalStorage) -> NumberedView | None:
    """The view that was kept, if all its files have their digests; what is left of a damaged one is removed."""
    try:
        if snapshot_numbers(storage):
            view = read_view(storage)
            read_totals(storage, view.snapshot)
            for file in view.snapshot.counts.values():
                read_counts(storage, file)
            return view
    except (FormatError, NotFoundError):
        pass
    shutil.rmtree(storage.root, ignore_errors=True)
    return None


def columns_of(view: NumberedView) -> tuple[tuple[str, int], ...]:
    """Each set of columns that a view was made from, and the number of its snapshot."""
    origins: tuple[ColumnsOrigin, ...] = view.snapshot.columns
    return tuple((origin.set, origin.snapshot) for origin in origins)
