"""Checks a catalog with pandera schemas before anything is built from it: Headrace's own schema, and the user's.

Single files are not rejected here; that is done by `headrace.catalog.judging.acceptance`. If a check fails here, the
whole catalog is invalid and a person must correct the mistake. The message lists the failed checks.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandera.polars as pa
import polars as pl
from pandera.errors import SchemaError, SchemaErrors

from headrace.catalog.judging.quick_checks import surely_passes
from headrace.catalog.judging.single_value_schemas import is_of_single_values
from headrace.catalog.rows.metadata_columns import metadata_columns
from headrace.catalog.rows.schemas import RECORDING_SCHEMA, REJECTED_SCHEMA
from headrace.errors import CatalogError, ConfigError
from headrace.format.keys import KEY_PATTERN, MAX_KEY_LENGTH
from headrace.format.rejects import RejectSubject
from headrace.sources.content_digests import DIGEST_PATTERN

_NULLABLE = frozenset({"bits_per_sample", "channels", "duplicate_of", "excluded_segments", "field_files", "sidecars"})
_SHOWN_FAILURES = 5
_BATCH_ROWS = 50_000

_CHECKS: dict[str, list[pa.Check]] = {
    "key": [pa.Check.str_matches(KEY_PATTERN), pa.Check.str_length(min_value=1, max_value=MAX_KEY_LENGTH)],
    "path": [pa.Check.str_length(min_value=1)],
    "sha256": [pa.Check.str_matches(DIGEST_PATTERN)],
    "num_bytes": [pa.Check.gt(0)],
    "num_frames": [pa.Check.gt(0)],
    "sample_rate_hz": [pa.Check.gt(0)],
    "num_channels": [pa.Check.gt(0)],
    "start_frame": [pa.Check.ge(0)],
    "stop_frame": [pa.Check.gt(0)],
    "bits_per_sample": [pa.Check.in_range(1, 64)],
    "channels": [pa.Check.str_matches("^[0-9]+(-[0-9]+)*$")],
    "duration_seconds": [pa.Check.gt(0)],
    "recording_digest": [pa.Check.str_matches("^[0-9a-f]{32}(-[0-9a-f]{32})?$")],
}

CATALOG_SCHEMA = pa.DataFrameSchema(
    {
        name: pa.Column(dtype, _CHECKS.get(name, []), nullable=name in _NULLABLE, unique=name == "key")
        for name, dtype in RECORDING_SCHEMA.items()
    },
    strict=False,  # the user's columns follow
)
"""Checks of the recordings table. The user's columns are checked by `check_metadata`."""

REJECTED_TABLE_SCHEMA = pa.DataFrameSchema(
    {
        name: pa.Column(
            dtype,
            [pa.Check.isin([str(origin) for origin in RejectSubject])] if name == "origin" else [],
            nullable=name not in {"path", "reason", "code", "origin"},
        )
        for name, dtype in REJECTED_SCHEMA.items()
    },
    strict=True,
)
"""Checks of the rejected table."""


def check_catalog(recordings: pl.DataFrame, rejected: pl.DataFrame) -> None:
    """Raise `CatalogError` if the tables are invalid: an error in Headrace, or an edited file."""
    _check(CATALOG_SCHEMA, recordings, "the catalog")
    _check(REJECTED_TABLE_SCHEMA, rejected, "the rejected table")


def check_partitions(tables: Callable[[], Iterable[pl.DataFrame]], rejected: pl.DataFrame) -> None:
    """`check_catalog` for a stored catalog. Holds some partitions at a time, and 8 bytes for each recording.

    Args:
        tables: returns the recordings tables of all partitions; it is called again if a key may be repeated.
        rejected: the rejected table.
    """
    check = PartCheck()
    for table in tables():
        check.add(table)
    check.finish(tables, rejected)


class PartCheck:
    """`check_partitions`, one table after the other. Holds some tables at a time, and 8 bytes for each recording."""

    def __init__(self) -> None:
        """Nothing is checked yet."""
        self._waiting: list[pl.DataFrame] = []
        self._keys: list[np.ndarray[Any, np.dtype[np.uint64]]] = []

    def add(self, recordings: pl.DataFrame) -> None:
        """Check a recordings table, or keep it until it and others are large enough: each check takes some time."""
        own = [name for name in recordings.columns if name in RECORDING_SCHEMA]
        self._waiting.append(recordings.select(own))  # the user's columns may be large
        if sum(table.height for table in self._waiting) >= _BATCH_ROWS:
            self._check_waiting()

    def finish(self, tables: Callable[[], Iterable[pl.DataFrame]], rejected: pl.DataFrame) -> None:
        """Check what must hold for all tables.

        Args:
            tables: returns the tables again; it is called if a key may be repeated.
            rejected: the rejected table.
        """
        if self._waiting:
            self._check_waiting()
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        keys.sort()
        if (keys[1:] == keys[:-1]).any():
            check_catalog(pl.concat(tables()), rejected)  # finds out whether values are equal, or only hashes
        pieces = rejected.iter_slices(_BATCH_ROWS)
        if rejected.height <= _BATCH_ROWS or not all(_passes(REJECTED_TABLE_SCHEMA, piece) for piece in pieces):
            _check(REJECTED_TABLE_SCHEMA, rejected, "the rejected table")

    def _check_waiting(self) -> None:
        rows = pl.concat(self._waiting)
        self._waiting = []
        _check(CATALOG_SCHEMA, rows, "the catalog")
        self._keys.append(rows["key"].hash().to_numpy())


def _passes(schema: pa.DataFrameSchema, piece: pl.DataFrame) -> bool:
    """Whether a piece of a table passes the checks of a schema of single values."""
    try:
        schema.validate(piece, lazy=True)
    except (SchemaErrors, SchemaError):
        return False
    return True


def check_metadata(recordings: pl.DataFrame, reference: str) -> None:
    """Check the user's columns, under the user's names, against the user's schema.

    The schema is given the columns of the metadata table, and those of Headrace's own columns that it names (`path`,
    `duration_seconds`, …). It only checks: values that it coerces or fills in are discarded.

    Args:
        recordings: the recordings table.
        reference: `module:object`, a `pandera.polars` DataFrameModel or DataFrameSchema on the import path.

    Raises:
        ConfigError: the schema cannot be loaded.
        CatalogError: a check fails; the message names the checks and some paths.
    """
    schema = load_schema(reference)
    _validate(schema, _seen(recordings, schema), f"the metadata (schema {reference})", recordings)


def check_metadata_in_parts(
    tables: Iterable[pl.DataFrame], whole: Callable[[Sequence[str] | None], pl.DataFrame], reference: str
) -> None:
    """`check_metadata` for tables that together are the recordings table; `whole` as in `MetadataCheck.finish`."""
    check = MetadataCheck(reference)
    for table in tables:
        check.add(table)
    check.finish(whole)


class MetadataCheck:
    """`check_metadata`, one table after the other.

    A schema that looks at single values checks some tables at a time. The whole table is checked by any other schema,
    and if a value fails, because the message shows the first failures by path.
    """

    def __init__(self, reference: str) -> None:
        """Nothing is checked yet. Raises `ConfigError` if the schema cannot be loaded."""
        self._reference, self._schema = reference, load_schema(reference)
        self._is_sound = is_of_single_values(self._schema)
        self._waiting: list[pl.DataFrame] = []
        self._columns: list[str] | None = None

    def add(self, recordings: pl.DataFrame) -> None:
        """Check a recordings table, or keep it until it and others are large enough: each check takes some time."""
        if self._columns is None:
            ours = (name for name in self._schema.columns if name in RECORDING_SCHEMA)
            self._columns = list(dict.fromkeys(["path", *ours, *metadata_columns(recordings)]))
        if self._is_sound:
            self._waiting.append(_seen(recordings, self._schema))
            if sum(table.height for table in self._waiting) >= _BATCH_ROWS:
                self._check_waiting()

    def finish(self, whole: Callable[[Sequence[str] | None], pl.DataFrame]) -> None:
        """Raise the errors of `check_metadata`.

        Args:
            whole: returns the recordings table with these columns, or with all of them, sorted by path. It is called if
                the table must be checked as a whole.
        """
        if self._waiting:
            self._check_waiting()
        if not self._is_sound or self._columns is None:
            check_metadata(whole(self._columns), self._reference)

    def _check_waiting(self) -> None:
        self._is_sound = self._is_sound and _passes(self._schema, pl.concat(self._waiting))
        self._waiting = []


def _seen(recordings: pl.DataFrame, schema: pa.DataFrameSchema) -> pl.DataFrame:
    """The columns that a user's schema is given, under the user's names."""
    theirs = {user: pl.col(stored).alias(user) for stored, user in metadata_columns(recordings).items()}
    ours = [name for name in schema.columns if name in RECORDING_SCHEMA and name not in theirs]
    return recordings.select(*ours, *theirs.values())


def load_schema(reference: str) -> pa.DataFrameSchema:
    """Import the schema `module:object`. Raises `ConfigError` if it cannot be imported or is not a schema."""
    module_name, _, name = reference.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"source.schema {reference}: {error}; expected module:object, with the module's folder on PYTHONPATH"
        ) from error
    if isinstance(found, type) and issubclass(found, pa.DataFrameModel):
        return found.to_schema()
    if isinstance(found, pa.DataFrameSchema):
        return found
    raise ConfigError(
        f"source.schema {reference}: expected a pandera.polars schema or model, found {type(found).__name__}"
    )


def _check(schema: pa.DataFrameSchema, table: pl.DataFrame, what: str) -> None:
    """Check a table of Headrace. pandera finds out what is wrong with one that is not sound at first sight."""
    if not surely_passes(schema, table):
        _validate(schema, table, what, table)


def _validate(schema: pa.DataFrameSchema, table: pl.DataFrame, what: str, recordings: pl.DataFrame) -> None:
    try:
        schema.validate(table, lazy=True)
    except (SchemaErrors, SchemaError) as error:
        raise CatalogError(f"{what} does not pass its checks: {_failures(error, recordings['path'])}") from error


def _failures(error: SchemaErrors | SchemaError, paths: pl.Series) -> str:
    """The failed checks, each with its first few values and their paths."""
    if isinstance(error, SchemaError):
        return str(error)
    parts: list[str] = []
    cases = error.failure_cases
    for (column, check), rows in cases.group_by("column", "check", maintain_order=True):
        shown = [_case(row, paths) for row in rows.head(_SHOWN_FAILURES).iter_rows(named=True)]
        more = f" and {rows.height - len(shown)} more" if rows.height > len(shown) else ""
        parts.append(f"{'columns' if column is None else f'column {column!r}'}, {check}: {', '.join(shown)}{more}")
    return "; ".join(parts)


def _case(row: dict[str, Any], paths: pl.Series) -> str:
    index = row["index"]
    value = repr(row["failure_case"])
    return value if index is None or index >= len(paths) else f"{value} ({paths[index]})"
