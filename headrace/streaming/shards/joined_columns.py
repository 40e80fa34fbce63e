"""Finds the sets of columns that a stream asks for, and decides what each of them adds to a sample.

Names and types of columns are in the snapshots of the sets, so two columns with one name are an error here, before a
sample is read. `column_reader` reads the files.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import ConfigError, FormatError, IntegrityError, NotFoundError
from headrace.format.beside.column_files import read_columns, specs_of
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.format.beside.labels import labels_in
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_table
from headrace.format.typed_json import json_value
from headrace.locate import locate
from headrace.locate.listing import has_snapshots
from headrace.locate.no_shards import not_built, parts_beside
from headrace.locate.outputs import COLUMNS, ITSELF, ShardFolder, place_of
from headrace.stores.storage import Storage, Transfer, open_storage
from headrace.streaming.selection import METADATA, Selection, WantedTensor
from headrace.streaming.shards.column_tensors import (
    TENSOR_DTYPES,
    TensorColumn,
    tensor_of_labels,
    tensor_of_lists,
    tensor_of_numbers,
)
from headrace.streaming.shards.matching import Companion
from headrace.streaming.shards.shard_set import DataIdentity, ShardSet, SnapshotShards, snapshot_shards


@dataclass(frozen=True, slots=True)
class JoinedSources:
    """The place where sets of columns are looked for.

    Attributes:
        output: the output that the stream belongs to.
        transfer: time limits of stores.
        pins: snapshots by name of the set; the newest that belongs to the audio for other sets.
    """

    output: str
    transfer: Transfer | None
    pins: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """One set of columns at one snapshot, and what it adds to a sample. A value that is pickled to workers.

    Attributes:
        name: name of the set.
        storage: its folder.
        shards: its files: one for each audio shard.
        identity: what a saved state records of it.
        joined: columns that become metadata.
        tensors: columns that come as tensors.
        only_fills: whether it adds only the names that the sample's JSON lacks.
    """

    name: str
    storage: Storage
    shards: SnapshotShards
    identity: DataIdentity
    joined: tuple[ColumnSpec, ...]
    tensors: tuple[TensorColumn, ...] = ()
    only_fills: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """A set at the snapshot that is read; `is_asked_for` is False for a set that only gives tensors."""

    companion: Companion
    snapshot: NumberedSnapshot
    is_asked_for: bool
    specs: tuple[ColumnSpec, ...]

    @property
    def name(self) -> str:
        return _set_name(self.companion.named)

    def spec(self, name: str) -> ColumnSpec | None:
        """The user's column of this name, or else the fact."""
        found = [spec for spec in self.specs if spec.name == name]
        return min(found, key=lambda spec: spec.is_fact, default=None)

    def first_value(self, spec: ColumnSpec) -> object:
        """The first value of a column; None if it has none. Raises as `read_columns`."""
        storage = self.companion.folder.storage
        for name in read_table(storage, self.snapshot.snapshot).names():
            column = read_columns(storage, name).column(spec.name, is_fact=spec.is_fact)
            if column.is_valid.any():
                return column.value(int(column.is_valid.argmax()))
        return None

    def names(self) -> dict[str, ColumnSpec]:
        """All columns by name; of a user's column and a fact with one name, the user's."""
        return {spec.name: spec for spec in sorted(self.specs, key=lambda spec: not spec.is_fact)}


def companions(wanted: Sequence[str], sources: JoinedSources) -> list[Companion]:
    """The folders of the sets that are asked for.

    Args:
        wanted: names of sets, or folders of columns.
        sources: where they are looked for.

    Raises:
        ConfigError: two sets have one name.
        NotFoundError: there is no such set; the message lists those that there are.
    """
    found = [_companion(name, sources) for name in wanted]
    names = [_set_name(companion.named) for companion in found]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise ConfigError(f"columns: two sets are called {twice!r}: name each set once, or rename a folder")
    return found


def metadata_companion(sources: JoinedSources) -> Companion | None:
    """The folder of the set `metadata` of an output; None if the output has no such set."""
    if METADATA in sources.pins:
        return _companion(METADATA, sources)
    named = place_of(sources.output, COLUMNS, METADATA)
    storage = open_storage(named, sources.transfer)
    return Companion(named, COLUMNS, _all_of(named, sources.transfer)) if has_snapshots(storage) else None


def lacking_tensors(selection: Selection, chosen: Iterable[NumberedSnapshot]) -> bool:
    """Whether a column that is wanted as a tensor is in none of these sets."""
    names = {spec.name for found in chosen for spec in specs_of(found.snapshot)}
    return any(tensor.name not in names for tensor in selection.tensors)


def planned_sets(
    selection: Selection, chosen: Sequence[tuple[Companion, NumberedSnapshot]], output: str
) -> tuple[ColumnSet, ...]:
    """The sets with what each adds to a sample.

    Args:
        selection: what is asked for.
        chosen: the sets at the snapshots that are read: those asked for first, in order.
        output: the output that the stream belongs to, for messages.

    Raises:
        ConfigError: two sets have a column of one name; or a tensor is wanted of a column that does not exist, or
            that holds no numbers.
    """
    sets = [
        _Found(companion, found, number < len(selection.columns), specs_of(found.snapshot))
        for number, (companion, found) in enumerate(chosen)
    ]
    _check_names(one for one in sets if one.is_asked_for)
    tensors = [_tensor(tensor, sets, output) for tensor in selection.tensors]
    return tuple(_planned(number, one, tensors, selection.split) for number, one in enumerate(sets))


def check_json(sets: Sequence[ColumnSet], primary: ShardSet, table: NumberedSnapshot | None) -> None:
    """Raise `ConfigError` if a set has a column that is in the JSON of the samples, too.

    Args:
        sets: the sets of the stream.
        primary: its shards; the JSON of the first sample is read.
        table: the set `metadata`: its columns are in the JSON of every sample if any of them is; None without it.
    """
    names = set(_names_in_json(_json_of_first_sample(primary)))
    users = set() if table is None else {spec.name for spec in specs_of(table.snapshot) if not spec.is_fact}
    if names & users:
        names |= users
    for one in sets:
        for spec in () if one.only_fills else one.joined:
            if spec.name in names:
                found = clash(spec.name, one.name, f"the JSON of the samples in {primary.storage.uri}")
                raise ConfigError(f"{found}; or build it with source.json: minimal, so that the JSON has no metadata")


def clash(name: str, of_set: str, other: str) -> str:
    """The message for a column whose name is taken."""
    return (
        f"columns: {name!r} of the set {of_set!r} is also in {other}, and both would have this name in a sample's "
        "metadata: rename the column and build the set again, or leave the set out"
    )


def _names_in_json(blob: bytes) -> list[str]:
    """The names in the JSON of a sample; none if it is not valid, which a reader reports."""
    try:
        found = json_value(blob)
    except ValueError:
        return []
    return list(found) if isinstance(found, dict) else []


def _json_of_first_sample(primary: ShardSet) -> bytes:
    """The JSON of the first sample of a stream; empty if it has none, or if it cannot be read.

    A reader reports what cannot be read, with the names of shard and sample.
    """
    if not len(primary):
        return b""
    name = primary.shards.name(0)
    with contextlib.suppress(IntegrityError, FormatError, NotFoundError):
        if (span := primary.load_index(primary.storage, name).range_of(0, "json")) is not None:
            return primary.storage.read_ranges(name, [span])[0]
    return b""


def _companion(name: str, sources: JoinedSources) -> Companion:
    named = place_of(sources.output, COLUMNS, name)
    storage = open_storage(named, sources.transfer)
    if (pin := sources.pins.get(_set_name(named))) is not None:
        return Companion(named, COLUMNS, ShardFolder(ITSELF, storage, (pin,)))
    if not has_snapshots(storage):
        known = f"{not_built(storage)}{parts_beside(named, sources.transfer)}"
        raise NotFoundError(f"columns={name!r}: {named} has no snapshot{known}")
    return Companion(named, COLUMNS, _all_of(named, sources.transfer))


def _all_of(named: str, transfer: Transfer | None) -> ShardFolder:
    return locate(named, transfer=transfer).one_folder("a set of columns")


def _set_name(named: str) -> str:
    return named.rstrip("/").rpartition("/")[2]


def _check_names(sets: Iterable[_Found]) -> None:
    """Raise `ConfigError` if two sets have a column of one name."""
    owners: dict[str, str] = {}
    for one in sets:
        for name in one.names():
            if (owner := owners.setdefault(name, one.name)) != one.name:
                raise ConfigError(clash(name, one.name, f"the set {owner!r}"))


def _tensor(tensor: WantedTensor, sets: Sequence[_Found], output: str) -> tuple[int, TensorColumn]:
    """The number of the set that has the column, and the column."""
    for number, one in enumerate(sets):
        if (spec := one.spec(tensor.name)) is not None:
            if spec.kind is ColumnKind.STRING:
                built = labels_in(one.snapshot.snapshot).get(tensor.name)
                return number, tensor_of_labels(tensor, spec, one.name, built)
            if spec.kind is ColumnKind.JSON:
                return number, tensor_of_lists(tensor, spec, one.name, one.first_value(spec))
            return number, tensor_of_numbers(tensor, spec, one.name)
    numbers = sorted({spec.name for one in sets for spec in one.specs if spec.kind in TENSOR_DTYPES})
    known = f"the columns of numbers are {', '.join(numbers)}" if numbers else "no set has a column of numbers"
    raise ConfigError(f"tensors: no set that is read of {output} has a column {tensor.name!r}; {known}")


def _planned(number: int, found: _Found, tensors: Sequence[tuple[int, TensorColumn]], split: str | None) -> ColumnSet:
    storage = found.companion.folder.storage
    own_split = split if split in found.snapshot.snapshot.splits else None
    shards, identity = snapshot_shards(storage, found.snapshot, own_split)
    return ColumnSet(
        found.name,
        storage,
        shards,
        identity,
        tuple(found.names().values()) if found.is_asked_for else (),
        tuple(tensor for place, tensor in tensors if place == number),
        only_fills=found.name == METADATA,
    )
