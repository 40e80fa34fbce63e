"""What must hold of a catalog before anything is built from it, as pandera schemas: ours, and the user's own.

Owns `CATALOG_SCHEMA`, loading a user's schema, and turning failures into one message. Refusing single files is not
done here: what reaches these checks is either right as a whole or a mistake that a person must settle.
"""

import importlib
from typing import Any

import pandera.polars as pa
import polars as pl
from pandera.errors import SchemaError, SchemaErrors

from headrace.catalog_tables import RECORDING_SCHEMA, REJECTED_SCHEMA
from headrace.errors import CatalogError, ConfigError
from headrace.keys import KEY_PATTERN, MAX_KEY_LENGTH
from headrace.metadata_columns import metadata_columns
from headrace.rejects import Origin

_NULLABLE = frozenset({"bits_per_sample", "duplicate_of"})
_SHOWN_FAILURES = 5

_CHECKS: dict[str, list[pa.Check]] = {
    "key": [pa.Check.str_matches(KEY_PATTERN), pa.Check.str_length(min_value=1, max_value=MAX_KEY_LENGTH)],
    "path": [pa.Check.str_length(min_value=1)],
    "sha256": [pa.Check.str_matches("^[0-9a-f]{64}$")],
    "num_bytes": [pa.Check.gt(0)],
    "num_frames": [pa.Check.gt(0)],
    "sample_rate_hz": [pa.Check.gt(0)],
    "num_channels": [pa.Check.gt(0)],
    "bits_per_sample": [pa.Check.in_range(1, 64)],
    "duration_seconds": [pa.Check.gt(0)],
    "recording_digest": [pa.Check.str_matches("^[0-9a-f]{32}$")],
}

CATALOG_SCHEMA = pa.DataFrameSchema(
    {
        name: pa.Column(dtype, _CHECKS.get(name, []), nullable=name in _NULLABLE, unique=name in {"key", "path"})
        for name, dtype in RECORDING_SCHEMA.items()
    },
    strict=False,  # the user's columns follow
)
"""The recordings table. The user's columns are theirs to check, see `check_metadata`."""

REJECTED_TABLE_SCHEMA = pa.DataFrameSchema(
    {
        name: pa.Column(
            dtype,
            [pa.Check.isin([str(origin) for origin in Origin])] if name == "origin" else [],
            nullable=name not in {"path", "reason", "code", "origin"},
        )
        for name, dtype in REJECTED_SCHEMA.items()
    },
    strict=True,
)
"""The rejected table."""


def check_catalog(recordings: pl.DataFrame, rejected: pl.DataFrame) -> None:
    """Raises `CatalogError` where the tables are not what later steps rely on: a fault of ours, or a file edited."""
    _validate(CATALOG_SCHEMA, recordings, "the catalog", recordings)
    _validate(REJECTED_TABLE_SCHEMA, rejected, "the rejected table", rejected)


def check_metadata(recordings: pl.DataFrame, reference: str) -> None:
    """Check the user's columns, under the user's names, against the user's schema.

    The schema sees the columns of the metadata table, and those of ours that it names (`path`, `duration_seconds`, …).
    It only checks: values that it would coerce or fill are not taken over.

    Args:
        recordings: the recordings table.
        reference: `module:object`, a `pandera.polars` DataFrameModel or DataFrameSchema on the import path.

    Raises:
        ConfigError: there is no such schema.
        CatalogError: the table does not pass; names checks and some paths.
    """
    schema = load_schema(reference)
    names = metadata_columns(recordings)
    theirs = {user: pl.col(stored).alias(user) for stored, user in names.items()}
    ours = [name for name in schema.columns if name in RECORDING_SCHEMA and name not in theirs]
    table = recordings.select(*ours, *theirs.values())
    _validate(schema, table, f"the metadata (schema {reference})", recordings)


def load_schema(reference: str) -> pa.DataFrameSchema:
    """The schema behind `module:object`. Raises `ConfigError` where there is none."""
    module_name, _, name = reference.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"source.schema {reference}: {error}; write it as module:object") from error
    if isinstance(found, type) and issubclass(found, pa.DataFrameModel):
        return found.to_schema()
    if isinstance(found, pa.DataFrameSchema):
        return found
    raise ConfigError(
        f"source.schema {reference}: expected a pandera.polars schema or model, found {type(found).__name__}"
    )


def _validate(schema: pa.DataFrameSchema, table: pl.DataFrame, what: str, recordings: pl.DataFrame) -> None:
    try:
        schema.validate(table, lazy=True)
    except (SchemaErrors, SchemaError) as error:
        raise CatalogError(f"{what} does not hold: {_failures(error, recordings['path'])}") from error


def _failures(error: SchemaErrors | SchemaError, paths: pl.Series) -> str:
    """The failing checks, each with its first few values and the paths that they belong to."""
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
