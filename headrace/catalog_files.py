"""The catalog on disk: two Parquet files below the output.

Owns their names, their format version and reading them back. It does not look at what the rows say.
"""

import io
from collections.abc import Iterable
from typing import BinaryIO

import polars as pl

from headrace.catalog import Catalog
from headrace.catalog_tables import RECORDING_SCHEMA, REJECTED_SCHEMA, Columns
from headrace.errors import FormatError
from headrace.storage import Storage

CATALOG_PATH = "catalog/catalog.parquet"
REJECTED_PATH = "catalog/rejected.parquet"
CATALOG_FORMAT = 1

_FORMAT_NOTE = "headrace.format"
_PROBE_NOTE = "headrace.probe_version"


def write_catalog(storage: Storage, catalog: Catalog) -> bool:
    """Write both tables, each atomically and only if its bytes differ from what is there. Says whether any did.

    A crash between the two is harmless: rows are facts of files as they were, whichever table they stand in, and the
    next scan puts them right.
    """
    tables = {REJECTED_PATH: catalog.rejected, CATALOG_PATH: catalog.recordings}
    written = [_write_if_new(storage, path, _parquet(table, catalog.probe_version)) for path, table in tables.items()]
    return any(written)


def read_catalog(storage: Storage) -> Catalog | None:
    """The catalog of the last scan, or None where none has been written.

    Raises:
        FormatError: a file is damaged, or of a format that this version does not read.
    """
    if not (storage.exists(CATALOG_PATH) and storage.exists(REJECTED_PATH)):
        return None
    recordings, _ = _read(storage, CATALOG_PATH, RECORDING_SCHEMA)
    rejected, probe_version = _read(storage, REJECTED_PATH, REJECTED_SCHEMA)
    return Catalog(recordings, rejected, probe_version)


def read_columns(storage: Storage, path: str, columns: Iterable[str]) -> pl.DataFrame | None:
    """Some columns of `CATALOG_PATH` or `REJECTED_PATH`, in this order; None where no catalog has been written.

    No other column is decoded, so that a look at a large catalog costs little. Where one is missing all columns are
    given: who misses it can say what there is.

    Raises:
        FormatError: as `read_catalog`.
    """
    if not storage.exists(path):
        return None
    with storage.open(path) as file:
        table, _ = _decoded(file, f"{storage.uri}/{path}", list(columns))
    return table


def _parquet(table: pl.DataFrame, probe_version: str) -> bytes:
    file = io.BytesIO()
    table.write_parquet(file, metadata={_FORMAT_NOTE: str(CATALOG_FORMAT), _PROBE_NOTE: probe_version})
    return file.getvalue()


def _write_if_new(storage: Storage, path: str, data: bytes) -> bool:
    if storage.exists(path) and storage.read(path) == data:
        return False
    storage.write(path, data)
    return True


def _read(storage: Storage, path: str, schema: Columns) -> tuple[pl.DataFrame, str]:
    """A table that holds at least the columns of `schema`, and the version of the reader that made it."""
    place = f"{storage.uri}/{path}"
    with storage.open(path) as file:
        table, probe_version = _decoded(file, place)
    if differing := [name for name, dtype in schema.items() if table.schema.get(name) != dtype]:
        raise FormatError(f"{place}: columns {differing} are missing or of another type; delete catalog/ to rebuild it")
    return table, probe_version


def _decoded(file: BinaryIO, place: str, columns: list[str] | None = None) -> tuple[pl.DataFrame, str]:
    """A table, whole or some columns of it, and the version of the reader that made it."""
    try:
        notes = pl.read_parquet_metadata(file)
        if notes.get(_FORMAT_NOTE) == str(CATALOG_FORMAT):
            file.seek(0)
            is_whole = columns is None or not pl.read_parquet_schema(file).keys() >= set(columns)
            file.seek(0)
            table = pl.read_parquet(file, columns=None if is_whole else columns)
            return table, notes.get(_PROBE_NOTE, "")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"{place} is damaged ({error}); delete the folder catalog/ to have it made anew") from error
    found = notes.get(_FORMAT_NOTE, "no version at all")
    raise FormatError(f"{place}: format {CATALOG_FORMAT} expected, found {found}; delete catalog/ to rebuild it")
