"""Exports a set of columns as one Parquet file, with a row for each sample. Needs polars, which builds have."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, MissingDependencyError, NotFoundError, StorageError
from headrace.format.beside.column_files import specs_of
from headrace.format.beside.column_sets import ColumnSet
from headrace.format.beside.column_table import ColumnKind, ColumnSpec, ColumnTable
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.locate.outputs import AUDIO, COLUMNS
from headrace.stores.storage import Storage

if TYPE_CHECKING:
    import polars as pl

_OWN = ("key", "split", "shard")


def export_columns(output: Storage, name: str, target: Path) -> int:
    """Write the newest snapshot of a set of columns as a Parquet file. Returns the number of rows.

    The file has `key`, `split` and `shard` of each sample, in the order of the audio snapshot that the columns fit,
    then the columns. A fact, or one of these three, has `fact.` before its name if the user has a column of that name.
    Lists and objects are JSON.

    Args:
        output: the output of a data set.
        name: the set.
        target: the file; it is replaced as a whole.

    Raises:
        MissingDependencyError: polars is not installed.
        NotFoundError: the output has no such set, or the audio snapshot is gone.
        ConfigError: the folder of the file does not exist.
    """
    try:
        import polars as pl  # noqa: PLC0415 - a training node has none
    except ImportError as error:
        raise MissingDependencyError("Parquet needs polars: pip install 'headrace[where]'") from error
    folder = output.at(f"{COLUMNS}/{name}")
    if not snapshot_numbers(folder):
        known = ", ".join(sorted({entry.path.split("/")[1] for entry in output.list(f"{COLUMNS}/")})) or "none"
        raise NotFoundError(f"{output.uri}: no columns {name!r} have a snapshot; there are: {known}")
    if not target.absolute().parent.is_dir():
        raise ConfigError(f"{target}: the folder {target.absolute().parent} does not exist; create it first")
    if target.is_dir():
        raise ConfigError(f"{target}: is a folder; name the file to write")
    snapshot = read_snapshot(folder)
    found = ColumnSet(folder, snapshot, specs_of(snapshot.snapshot))
    schema = dict(_schema(pl, found.specs))
    parts = [pl.DataFrame(values, schema=schema) for values in _values(output.at(AUDIO), found)]
    table = pl.concat([pl.DataFrame(schema=schema), *parts])
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.headrace-tmp")
    try:
        table.write_parquet(temporary)
        os.replace(temporary, target)  # noqa: PTH105 - as a rename that replaces
    except OSError as error:
        raise StorageError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return table.height


def _values(audio: Storage, found: ColumnSet) -> Iterator[dict[str, Any]]:
    """The values of each shard by name."""
    names = _names(found.specs)
    table = read_table(audio, read_snapshot(audio, found.snapshot.snapshot.origin["audio_snapshot"]).snapshot)
    for row, shard in enumerate(table.names()):
        keys, columns = read_index(audio, shard).keys(), found.read(shard)
        own = {"key": keys, "split": [table.splits[table.split[row]]] * len(keys), "shard": [shard] * len(keys)}
        values = {names[True, name]: own[name] for name in _OWN}
        for spec in found.specs:
            if not (spec.is_fact and spec.name in _OWN):
                values[names[spec.is_fact, spec.name]] = _listed(columns, spec)
        yield values


def _listed(table: ColumnTable, spec: ColumnSpec) -> list[Any]:
    column = table.column(spec.name, is_fact=spec.is_fact)
    if spec.kind.is_nested:
        column = column.as_text()
    return column.take(range(len(column)))


def _names(specs: tuple[ColumnSpec, ...]) -> dict[tuple[bool, str], str]:
    """(is a fact, name) → name in the file."""
    users = {spec.name for spec in specs if not spec.is_fact}
    facts = dict.fromkeys([*_OWN, *(spec.name for spec in specs if spec.is_fact)])
    own = {(True, name): f"fact.{name}" if name in users else name for name in facts}
    return own | {(False, name): name for name in users}


def _schema(pl: Any, specs: tuple[ColumnSpec, ...]) -> Iterator[tuple[str, "pl.DataType"]]:  # noqa: ANN401 - a module
    types = {ColumnKind.INT: pl.Int64, ColumnKind.FLOAT: pl.Float64, ColumnKind.BOOL: pl.Boolean}
    names = _names(specs)
    yield from ((names[True, name], pl.String) for name in _OWN)
    for spec in specs:
        if not (spec.is_fact and spec.name in _OWN):
            yield names[spec.is_fact, spec.name], types.get(spec.kind, pl.String)
