"""The columns of the metadata table that have a meaning: path, key, begin and end of a span. Pure.

`source.columns` maps them by name. In the prepared table they have names that no user's column has. The user's columns
stay beside them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from headrace.config.source import ColumnsConfig, SampleKind
from headrace.errors import ConfigError
from headrace.format.typed_json import json_value
from headrace.path_templates import TABLE_FOLDER, TABLE_STEM, columns_of, is_template, pieces_of

EXPLICIT_KEY = "\0key"  # no column of a user has such a name
"""Name of the column with the user's key of a recording or row; null if the key is made from the path."""
ROW_NUMBER = "\0row"
"""Name of the column with the number of each row, from 1."""
PLACE = "\0place"
"""Name of the column with the line and the file of each row, if the table has several files; null otherwise."""
START, END, DURATION, SPAN_FAULT = "\0start", "\0end", "\0duration", "\0span_fault"
CHANNELS = "\0channels"
"""Name of the column with the channels of a row, as in the catalog (`0-1`). Null for all channels; a cell that is not
valid is kept after a question mark."""
SPAN_COLUMNS = (START, END, DURATION, SPAN_FAULT, CHANNELS)
"""Names of the columns with the span of a row in seconds, null where it is not given, and with the reason why the span
is invalid whatever the recording is; null if it is valid. And of the column with its channels."""

_FIELD = "\0field "
_LETTERS = {"A": "0", "B": "1"}  # Kaldi's names of channels
_CHANNEL = re.compile(r"([0-9]{1,3})(\.0*)?")
_ROLES = {"start": START, "end": END, "duration": DURATION}
SHOWN = 5
"""Rows, or paths, that a message lists at most."""


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The names of the user's columns that have a meaning; None if the table has no such column.

    Attributes:
        path: path of the recording, or a template of it.
        unmapped_path: the same, if it is not metadata: `source.columns` does not name it.
        key: key of the sample.
        spans: `START`, `END`, `DURATION` → the user's column.
        channel: channels of the recording.
        fields: audio field → the user's column, except the first, which is `path`.
    """

    path: str
    unmapped_path: str | None
    key: str | None
    spans: Mapping[str, str]
    fields: Mapping[str, str]
    channel: str | None = None

    @classmethod
    def of(
        cls, columns: ColumnsConfig, samples: SampleKind, names: Sequence[str], fields: Mapping[str, str]
    ) -> "RowColumns":
        """The columns of a table with these column names. `fields` are those of `source.fields`.

        Raises:
            ConfigError: the table has no column `path`, or lacks a column that `source.columns` names.
        """
        found = ", ".join(names)
        path = next(iter(fields.values()), columns.path)
        wanted = {f"source.columns.{role}: ": getattr(columns, role) for role in columns.model_fields_set}
        wanted |= {f"source.fields.{field}: ": name for field, name in fields.items()}
        for where, name in {**wanted, "": path}.items():
            for column in () if name is None else columns_of(name):
                if column not in names:
                    raise ConfigError(f"{where}the metadata table has no column {column!r}; its columns are {found}")
        is_mapped = bool(fields) or "path" in columns.model_fields_set
        spans = _span_columns(columns, names) if samples == SampleKind.ROWS else {}
        others = dict(list(fields.items())[1:])
        return cls(path, None if is_mapped else path, columns.key, spans, others, columns.channel)


def _span_columns(columns: ColumnsConfig, names: Sequence[str]) -> dict[str, str]:
    """The columns of spans that `source.columns` names, and those that have the default names."""
    mapped = columns.model_fields_set
    ends = columns.end or columns.duration  # where one of them has a column, the other has none by default
    defaults = {role: role for role in names if role == "start" or not ends}
    spans = {ours: getattr(columns, role) if role in mapped else defaults.get(role) for role, ours in _ROLES.items()}
    return {ours: name for ours, name in spans.items() if name is not None}


def with_roles(
    metadata: pl.DataFrame,
    roles: RowColumns,
    users: Mapping[str, pl.Expr],
    first_row: int,
    file: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """The metadata table with the columns that have a meaning under our names, and the user's columns.

    Args:
        metadata: a batch of the user's table.
        roles: its columns that have a meaning.
        users: name in the catalog → the user's column.
        first_row: number of the batch's first row.
        file: values of the names that stand for the file of these rows in templates of paths.

    Raises:
        ConfigError: a column of spans has values that are not numbers or text.
    """
    key = pl.lit(None, dtype=pl.String) if roles.key is None else pl.col(roles.key).cast(pl.String)
    return metadata.select(
        _path(roles.path, file or {}).alias("path"),
        key.replace("", None).alias(EXPLICIT_KEY),
        pl.int_range(first_row, pl.len() + first_row).alias(ROW_NUMBER),
        pl.lit(None, dtype=pl.String).alias(PLACE),
        *(_seconds(metadata, roles.spans.get(ours)).alias(ours) for ours in _ROLES.values()),
        _faults(metadata, roles.spans).alias(SPAN_FAULT),
        _channels(metadata, roles.channel).alias(CHANNELS),
        *(_path(column, file or {}).alias(field_column(name)) for name, column in roles.fields.items()),
        *(column.alias(name) for name, column in users.items()),
    )


def field_column(name: str) -> str:
    """Name of the column with the paths of an audio field that is not the first."""
    return _FIELD + name


def path_columns(table: pl.DataFrame) -> list[str]:
    """Names of the columns of a prepared table that have paths: of the recording, and of its other audio fields."""
    return ["path", *(name for name in table.columns if name.startswith(_FIELD))]


def ours(table: pl.DataFrame) -> list[str]:
    """Names of the columns of a prepared table that are not the user's, except `path`."""
    return [EXPLICIT_KEY, ROW_NUMBER, PLACE, *SPAN_COLUMNS, *path_columns(table)[1:]]


def row_said(sentence: str, *values: pl.Expr) -> pl.Expr:
    """The reason for a row's rejection: `row 7 of the metadata table …`, with values in place of `{}`.

    A row of one of several files is named by its line and file.
    """
    row = pl.coalesce(PLACE, pl.format("row {} of the metadata table", pl.col(ROW_NUMBER)))
    return pl.format(f"{{}} {sentence}", row, *values)


def row_name() -> pl.Expr:
    """The name of a row within a sentence: `row 7`, or its line and file."""
    return pl.coalesce(PLACE, pl.format("row {}", pl.col(ROW_NUMBER)))


def rows_said(names: Sequence[str]) -> str:
    """The names of several rows (`row_name`) within a sentence: `rows 3, 7`, or their lines and files."""
    if all(name.startswith("row ") for name in names):
        return f"rows {', '.join(name.removeprefix('row ') for name in names)}"
    return ", ".join(names)


def _path(path: str, file: Mapping[str, str]) -> pl.Expr:
    """The path of each row, from a column or a template; null if one of its columns is null or empty."""
    if not is_template(path):
        return pl.col(path).cast(pl.String)
    pieces = pieces_of(path)
    values = [_part(name, file) if place % 2 else pl.lit(name) for place, name in enumerate(pieces)]
    return pl.concat_str(values)


def _part(name: str, file: Mapping[str, str]) -> pl.Expr:
    if name in {TABLE_FOLDER, TABLE_STEM}:
        return pl.lit(file.get(name, ""))
    value = pl.col(name).cast(pl.String)
    return pl.when(value != "").then(value)


def _seconds(metadata: pl.DataFrame, name: str | None) -> pl.Expr:
    """The values of a column of seconds as float64; null for an empty cell, NaN for text that is not a number."""
    if name is None:
        return pl.lit(None, dtype=pl.Float64)
    dtype = metadata.schema[name]
    if dtype.is_numeric() or dtype == pl.Null:
        return pl.col(name).cast(pl.Float64)
    if dtype != pl.String:
        raise ConfigError(f"metadata column {name!r}: expected seconds as numbers, found {dtype}")
    text = pl.col(name).str.strip_chars()
    return pl.when(text != "").then(text.cast(pl.Float64, strict=False).fill_null(float("nan")))


def _channels(metadata: pl.DataFrame, name: str | None) -> pl.Series:
    """See `CHANNELS`."""
    if name is None:
        return pl.repeat(None, metadata.height, dtype=pl.String, eager=True)
    return pl.Series([channel_text(cell) for cell in metadata[name].to_list()], dtype=pl.String)


def channel_text(cell: Any) -> str | None:  # noqa: ANN401 - a cell of any type
    """The channels that a cell names, in the form of the catalog.

    >>> [channel_text(cell) for cell in (1, "B", "[0, 1]", [1, 0], "", None, -1)]
    ['1', '1', '0-1', '1-0', None, None, '?-1']
    """
    if cell is None or cell == "":
        return None
    try:
        listed = json_value(cell) if isinstance(cell, str) and cell.strip().startswith("[") else cell
        numbers = [_number(one) for one in (listed if isinstance(listed, list) else [listed])]
    except ValueError:
        numbers = []
    is_valid = bool(numbers) and len(set(numbers)) == len(numbers)
    return "-".join(map(str, numbers)) if is_valid else f"?{cell}"


def _number(channel: Any) -> int:  # noqa: ANN401 - a cell of any type
    """The number of a channel. Raises `ValueError` for other cells."""
    text = str(channel).strip()
    match = _CHANNEL.fullmatch(_LETTERS.get(text, text))
    if match is None:
        raise ValueError(text)
    return int(match[1])


def _faults(metadata: pl.DataFrame, spans: Mapping[str, str]) -> pl.Expr:
    """Why the span of a row is invalid, whatever its recording is; null if it is valid."""
    fault = pl.lit(None, dtype=pl.String)
    said = {ours: pl.col(name).cast(pl.String) for ours, name in spans.items()}
    seconds = {ours: _seconds(metadata, name) for ours, name in spans.items()}
    if START in spans and END in spans:
        is_backward = seconds[END] < seconds[START]
        names = pl.lit(spans[END]), pl.lit(spans[START])
        text = pl.format("has {}: {}, before its {}: {}", names[0], said[END], names[1], said[START])
        fault = pl.when(is_backward).then(text).otherwise(fault)
    for ours, name in spans.items():
        text = pl.format("has {}: {}, expected seconds, not below 0", pl.lit(name), said[ours])
        fault = pl.when(seconds[ours] < 0).then(text).otherwise(fault)
    for ours, name in spans.items():
        text = pl.format("has {}: {}, which is not a finite number of seconds", pl.lit(name), said[ours])
        fault = pl.when(~seconds[ours].is_finite()).then(text).otherwise(fault)
    return fault


def rows_with_two_ends(table: pl.DataFrame) -> pl.Series:
    """Names of the rows that have both an end and a duration. Rows that are rejected in any case do not count."""
    has_both = pl.col(END).is_not_null() & pl.col(DURATION).is_not_null()
    return table.filter(has_both & pl.col(SPAN_FAULT).is_null()).select(row_name()).to_series()


def two_ends(roles: RowColumns, rows: Sequence[str], num_rows: int) -> ConfigError:
    """The error that rows have both an end and a duration. `rows` are the names of the first few."""
    listed = rows_said(rows)
    more = f" and {num_rows - len(rows)} more" if num_rows > len(rows) else ""
    end, duration = roles.spans[END], roles.spans[DURATION]
    return ConfigError(
        f"the metadata table has both an end (column {end!r}) and a duration (column {duration!r}) in "
        f"{listed}{more}: both given is an error; name the column to use, source.columns: {{end: {end}}} or "
        f"{{duration: {duration}}}"
    )
