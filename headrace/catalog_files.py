"""The catalog on disk: two Parquet files below the output.

Owns their format version and reading them back. It does not look at what the rows say.
"""

import hashlib
import io
from typing import BinaryIO

import polars as pl

from headrace.catalog import Catalog
from headrace.catalog_summary import CATALOG_PATH, REJECTED_PATH
from headrace.catalog_tables import RECORDING_SCHEMA, REJECTED_SCHEMA, Columns
from headrace.errors import FormatError
from headrace.storage import Storage

CATALOG_FORMAT = 1

_FORMAT_NOTE = "headrace.format"
_PROBE_NOTE = "headrace.probe_version"


def write_catalog(storage: Storage, catalog: Catalog) -> dict[str, str]:
    """Write both tables, each atomically and only if its bytes differ from what is there. Path → SHA-256 of each.

    A crash between the two is harmless: rows are facts of files as they were, whichever table they stand in, and the
    next scan puts them right.
    """
    tables = {REJECTED_PATH: catalog.rejected, CATALOG_PATH: catalog.recordings}
    return {path: _written(storage, path, _parquet(table, catalog.probe_version)) for path, table in tables.items()}


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


def write_if_new(storage: Storage, path: str, data: bytes) -> None:
    """Write an object, atomically, unless it holds just these bytes."""
    if not (storage.exists(path) and storage.read(path) == data):
        storage.write(path, data)


def _parquet(table: pl.DataFrame, probe_version: str) -> bytes:
    file = io.BytesIO()
    table.write_parquet(file, metadata={_FORMAT_NOTE: str(CATALOG_FORMAT), _PROBE_NOTE: probe_version})
    return file.getvalue()


def _written(storage: Storage, path: str, data: bytes) -> str:
    write_if_new(storage, path, data)
    return hashlib.sha256(data).hexdigest()


def _read(storage: Storage, path: str, schema: Columns) -> tuple[pl.DataFrame, str]:
    """A table that holds at least the columns of `schema`, and the version of the reader that made it."""
    place = f"{storage.uri}/{path}"
    with storage.open(path) as file:
        table, probe_version = _decoded(file, place)
    if differing := [name for name, dtype in schema.items() if table.schema.get(name) != dtype]:
        raise FormatError(f"{place}: columns {differing} are missing or of another type; delete catalog/ to rebuild it")
    return table, probe_version


def _decoded(file: BinaryIO, place: str) -> tuple[pl.DataFrame, str]:
    """A table, and the version of the reader that made it."""
    try:
        notes = pl.read_parquet_metadata(file)
        if notes.get(_FORMAT_NOTE) == str(CATALOG_FORMAT):
            file.seek(0)
            return pl.read_parquet(file), notes.get(_PROBE_NOTE, "")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"{place} is damaged ({error}); delete the folder catalog/ to have it made anew") from error
    found = notes.get(_FORMAT_NOTE, "no version at all")
    raise FormatError(f"{place}: format {CATALOG_FORMAT} expected, found {found}; delete catalog/ to rebuild it")
