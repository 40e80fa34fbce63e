"""Builds a view from the newest audio snapshot and the columns that fit it, and finds out whether it is up to date."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from headrace.catalog.stored.column_header import read_table_header
from headrace.config.dataset import DatasetConfig
from headrace.errors import AlreadyExistsError, BuildError, ConfigError, NotFoundError
from headrace.format.beside.column_files import specs_of
from headrace.format.beside.column_sets import ColumnSet
from headrace.format.beside.view_files import ViewOrigin, commit_view, read_view
from headrace.format.beside.views import VIEWS, Balance, ColumnsOrigin, NumberedView, ViewDefinition
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, read_table, snapshot_numbers
from headrace.stores.storage import Storage
from headrace.views.definitions import sets_of
from headrace.views.names import ColumnNames, NoColumnError

_ATTEMPTS = 5
_COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class WantedView:
    """A view of an output.

    Attributes:
        name: its name.
        definition: what it chooses.
        sets: names of all sets of columns of the output.
        optional: names of those whose tables may come later.
        samples: the folder of the output with the snapshots of its samples.
    """

    name: str
    definition: ViewDefinition
    sets: tuple[str, ...]
    optional: tuple[str, ...] = ()
    samples: str = "audio"

    @classmethod
    def of(cls, config: DatasetConfig, name: str) -> Self:
        """A view of a data set."""
        found = config.views[name]
        balance = None if found.balance is None else Balance(found.balance.by, found.balance.alpha)
        optional = tuple(entry.name for entry in config.columns if entry.optional)
        return cls(name, ViewDefinition(found.where, balance, found.times), config.column_sets, optional)

    def folder(self, output: Storage) -> Storage:
        """The folder of the view."""
        return output.at(f"{VIEWS}/{self.name}")


def build_view(output: Storage, view: WantedView) -> tuple[NumberedView, bool]:
    """Evaluate a view on the newest audio snapshot and the columns that fit it, and commit its snapshot.

    Args:
        output: the output of the data set.
        view: the view.

    Returns:
        The newest snapshot of the view, and whether it is new.

    Raises:
        ConfigError: the definition is not valid for these columns, or it chooses no sample.
        NotFoundError: there is no audio snapshot yet.
        BuildError: other writers committed first five times in a row.
    """
    from headrace.views.making import ViewData, ViewMaking  # noqa: PLC0415 - polars: not in a code server

    for _ in range(_ATTEMPTS):
        audio = output.at(view.samples)
        snapshot = read_snapshot(audio)
        table = read_table(audio, snapshot.snapshot)
        fitting = fitting_sets(output, view.sets, snapshot)
        try:
            used = sets_of(view.definition, _names(fitting))
        except NoColumnError as error:
            raise NoColumnError(f"view {view.name!r}: {error}{_unfit(view, fitting)}") from error
        sets = {
            name: ColumnSet(_folder(output, name), fitting[name], specs_of(fitting[name].snapshot)) for name in used
        }
        making = ViewMaking(view.definition, ViewData(snapshot, table, sets))
        origin = ViewOrigin(view.definition, snapshot, table, making.columns)
        try:
            return commit_view(view.folder(output), origin, making.parts())
        except AlreadyExistsError:
            continue
    raise BuildError(f"{view.folder(output).uri}: other writers committed first {_ATTEMPTS} times; build again")


def awaited_sets(output: Storage, view: WantedView, failed: Sequence[str] = ()) -> tuple[str, ...]:
    """The sets of columns that a view waits for, if it names a column that no other set has.

    They are those that `failed`, and the optional ones without a table. Empty if there are none, if the view can be
    built, or if what it lacks is an error. Before the first audio snapshot, when columns are not known yet, a view
    waits for any of them.
    """
    absent = (*failed, *(name for name in view.optional if read_table_header(output, name) is None))
    try:
        if absent:
            sets_of(view.definition, _names(fitting_sets(output, view.sets, read_snapshot(output.at("audio")))))
    except (NoColumnError, NotFoundError):
        return absent
    except ConfigError:  # the build of the view says what is wrong
        return ()
    return ()


def newest_view(output: Storage, view: WantedView) -> NumberedView | None:
    """The newest snapshot of a view; None before the first build."""
    try:
        return read_view(view.folder(output))
    except NotFoundError:
        return None


def is_up_to_date(output: Storage, view: WantedView) -> bool:
    """Whether the newest snapshot of a view has the newest audio and columns, and the view's definition.

    Snapshots are read, and no shard or column.
    """
    newest = newest_view(output, view)
    try:
        audio = read_snapshot(output.at("audio"))
        fitting = fitting_sets(output, view.sets, audio)
        used = sets_of(view.definition, _names(fitting))
    except (NotFoundError, ConfigError):
        return False
    return newest is not None and (
        newest.snapshot.definition,
        newest.snapshot.audio_snapshot,
        newest.snapshot.audio_fingerprint,
        newest.snapshot.columns,
    ) == (
        view.definition,
        audio.number,
        audio.snapshot.fingerprint,
        tuple(ColumnsOrigin(name, fitting[name].number, fitting[name].snapshot.fingerprint) for name in used),
    )


def fitting_sets(output: Storage, sets: Sequence[str], audio: NumberedSnapshot) -> dict[str, NumberedSnapshot]:
    """Name of each set → its newest snapshot, if that fits an audio snapshot."""
    found = {}
    for name in sets:
        folder = _folder(output, name)
        if numbers := snapshot_numbers(folder):
            newest = read_snapshot(folder, numbers[-1])
            if newest.snapshot.origin.get("audio_fingerprint") == audio.snapshot.fingerprint:
                found[name] = newest
    return found


def _folder(output: Storage, name: str) -> Storage:
    return output.at(f"{_COLUMNS}/{name}")


def _names(fitting: Mapping[str, NumberedSnapshot]) -> ColumnNames:
    return ColumnNames({name: specs_of(found.snapshot) for name, found in fitting.items()})


def _unfit(view: WantedView, fitting: Mapping[str, NumberedSnapshot]) -> str:
    """The end of an error for an unknown column: the sets whose columns do not fit the newest audio snapshot."""
    missing = [name for name in view.sets if name not in fitting]
    return f". These sets have no columns for the newest audio yet: {', '.join(missing)}" if missing else ""
