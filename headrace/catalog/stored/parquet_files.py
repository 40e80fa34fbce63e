"""Tables of a catalog as the bytes of Parquet files, and back.

Format version, column names and types are checked when a table is parsed. Its rows are checked by
`headrace.catalog.judging.validation`, its digest by `headrace.catalog.stored.parts`.
"""

import io
from collections.abc import Iterable

import polars as pl

from headrace.catalog.rows.schemas import ColumnTypes
from headrace.catalog.stored.header import CATALOG_FORMAT
from headrace.errors import FormatError
from headrace.stores.storage import Storage

_FORMAT_NOTE = "headrace.format"
_PROBE_NOTE = "headrace.probe_version"


def parquet_bytes(table: pl.DataFrame, probe_version: str) -> bytes:
    """A table as a Parquet file. Equal tables give equal bytes.

    Args:
        table: the table.
        probe_version: version of the probe that read the files of the table; it is a note in the file.
    """
    file = io.BytesIO()
    table.write_parquet(
        file, statistics=False, metadata={_FORMAT_NOTE: str(CATALOG_FORMAT), _PROBE_NOTE: probe_version}
    )
    return file.getvalue()


def parsed_table(
    blob: bytes, place: str, schema: ColumnTypes, columns: Iterable[str] | None = None
) -> tuple[pl.DataFrame, str]:
    """The table in a Parquet file, and the version of the probe that read its files.

    Args:
        blob: the content of the file.
        place: its name, for messages.
        schema: columns that the file must have; others may follow.
        columns: the columns to return; all for None. Columns that the file lacks are left out.

    Raises:
        FormatError: the content is not Parquet, has another format version, or other columns.
    """
    file = io.BytesIO(blob)
    try:
        notes = pl.read_parquet_metadata(file)
        version = notes.get(_FORMAT_NOTE, "no version")
        if version == str(CATALOG_FORMAT):
            types = pl.read_parquet_schema(file)
            wanted = None if columns is None else [name for name in types if name in set(columns)]
            table = pl.read_parquet(file, columns=wanted)
    except (pl.exceptions.PolarsError, OSError) as error:  # polars raises OSError for some damaged files
        raise FormatError(f"{place} is damaged ({error}); {way_out(place)}") from error
    if version != str(CATALOG_FORMAT):
        raise FormatError(f"{place}: expected format {CATALOG_FORMAT}, found {version}; {way_out(place)}")
    if differing := [name for name, dtype in schema.items() if types.get(name) != dtype]:
        raise FormatError(f"{place}: columns {differing} are missing or have another type; {way_out(place)}")
    return table, notes.get(_PROBE_NOTE, "")


def way_out(place: str) -> str:
    """Advice for the user about a damaged part."""
    return f"delete {place.rpartition('/')[2]}, and the next scan writes it again"


def write_if_new(storage: Storage, path: str, data: bytes) -> None:
    """Write an object atomically, unless it already holds exactly these bytes."""
    if not (storage.exists(path) and storage.read(path) == data):
        storage.write(path, data)
