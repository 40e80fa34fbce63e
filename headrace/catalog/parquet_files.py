"""Reads and writes the catalog's two Parquet files below an output, `catalog.parquet` and `rejected.parquet`.

Format version, column names and types are checked when the files are read. Their rows are checked by
`headrace.catalog.checks`.
"""

import hashlib
import io
from typing import BinaryIO

import polars as pl

from headrace.catalog.columns import RECORDING_SCHEMA, REJECTED_SCHEMA, ColumnTypes
from headrace.catalog.scan import Catalog
from headrace.catalog.summary import CATALOG_PATH, REJECTED_PATH
from headrace.errors import FormatError
from headrace.stores.storage import Storage

CATALOG_FORMAT = 1

_FORMAT_NOTE = "headrace.format"
_PROBE_NOTE = "headrace.probe_version"


def write_catalog(storage: Storage, catalog: Catalog) -> dict[str, str]:
    """Write both tables. Returns path → SHA-256 of each file.

    Each table is written atomically, and only if its bytes differ from the stored ones. A crash between the two is
    harmless: rows are facts about files, whichever table they are in, and the next scan corrects the tables.
    """
    tables = {REJECTED_PATH: catalog.rejected, CATALOG_PATH: catalog.recordings}
    return {path: _written(storage, path, _parquet(table, catalog.probe_version)) for path, table in tables.items()}


def read_catalog(storage: Storage) -> Catalog | None:
    """The catalog of the last scan, or None before the first scan.

    Raises:
        FormatError: a file is damaged, or has a format version that cannot be read.
    """
    if not (storage.exists(CATALOG_PATH) and storage.exists(REJECTED_PATH)):
        return None
    recordings, _ = _read(storage, CATALOG_PATH, RECORDING_SCHEMA)
    rejected, probe_version = _read(storage, REJECTED_PATH, REJECTED_SCHEMA)
    return Catalog(recordings, rejected, probe_version)


def write_if_new(storage: Storage, path: str, data: bytes) -> None:
    """Write an object atomically, unless it already holds exactly these bytes."""
    if not (storage.exists(path) and storage.read(path) == data):
        storage.write(path, data)


def _parquet(table: pl.DataFrame, probe_version: str) -> bytes:
    file = io.BytesIO()
    table.write_parquet(file, metadata={_FORMAT_NOTE: str(CATALOG_FORMAT), _PROBE_NOTE: probe_version})
    return file.getvalue()


def _written(storage: Storage, path: str, data: bytes) -> str:
    write_if_new(storage, path, data)
    return hashlib.sha256(data).hexdigest()


def _read(storage: Storage, path: str, schema: ColumnTypes) -> tuple[pl.DataFrame, str]:
    """A table with at least the columns of `schema`, and the version of the probe that made it."""
    place = f"{storage.uri}/{path}"
    table, probe_version = _decoded(
        io.BytesIO(storage.read(path)), place
    )  # outside of `try`: a failing disk is not a damaged table
    if differing := [name for name, dtype in schema.items() if table.schema.get(name) != dtype]:
        raise FormatError(
            f"{place}: columns {differing} are missing or have another type; delete the folder catalog/ to rebuild it"
        )
    return table, probe_version


def _decoded(file: BinaryIO, place: str) -> tuple[pl.DataFrame, str]:
    """A table, and the version of the probe that made it."""
    try:
        notes = pl.read_parquet_metadata(file)
        if notes.get(_FORMAT_NOTE) == str(CATALOG_FORMAT):
            file.seek(0)
            return pl.read_parquet(file), notes.get(_PROBE_NOTE, "")
    except (pl.exceptions.PolarsError, OSError) as error:  # polars raises OSError for some damaged files
        raise FormatError(
            f"{place} is damaged ({error}); delete the folder catalog/, and the next build creates it again"
        ) from error
    found = notes.get(_FORMAT_NOTE, "no version")
    raise FormatError(
        f"{place}: expected format {CATALOG_FORMAT}, found {found}; delete the folder catalog/ to rebuild it"
    )
