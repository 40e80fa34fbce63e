"""The user's metadata columns inside the catalog: their names there, and their values as JSON.

A user's column keeps its name unless it clashes with one of Headrace's own columns. The JSON values made here are
written to the shards and are part of the recordings' digests, so they must not change from version to version.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from headrace.catalog.rows.schemas import OWN_COLUMNS
from headrace.errors import ConfigError
from headrace.format.typed_json import AS_JSON, json_of, json_value
from headrace.path_templates import path_columns, path_expression

_PREFIX = "metadata_"
_RESERVED = "headrace"


def stored_names(names: Iterable[str]) -> dict[str, str]:
    """The catalog's column name for each of the user's columns: `title` stays, `sha256` becomes `metadata_sha256`.

    A name that looks like an escaped one is escaped again, so `user_name` always returns the original.

    >>> stored_names(["title", "sha256", "metadata_sha256"])
    {'title': 'title', 'sha256': 'metadata_sha256', 'metadata_sha256': 'metadata_metadata_sha256'}

    Raises:
        ConfigError: a column is named `headrace`, which is reserved for provenance in each sample's JSON.
    """
    names = list(names)
    if _RESERVED in names:
        raise ConfigError(
            f"metadata column {_RESERVED!r}: each sample's JSON has provenance under this name; rename the column"
        )
    return {name: _PREFIX + name if _is_escapable(name) else name for name in names}


def user_name(column: str) -> str:
    """The user's name of a metadata column of the catalog."""
    return column.removeprefix(_PREFIX) if _is_escapable(column) else column


def metadata_columns(recordings: pl.DataFrame) -> dict[str, str]:
    """The metadata columns of a recordings table: stored name → user's name, in the table's order."""
    return {column: user_name(column) for column in recordings.columns if column not in OWN_COLUMNS}


def metadata_dicts(recordings: pl.DataFrame) -> list[dict[str, Any]]:
    """Each recording's metadata under the user's names, as values for `json.dumps`, in the rows' order.

    Dates and times become ISO 8601 strings, durations seconds, decimals floats; null, NaN and infinities (JSON has
    neither) become None. Keys are sorted, so that moving a column in the user's table changes nothing.
    """
    names, rows = json_rows(recordings)
    return [dict(zip(names, row, strict=True)) for row in rows]


def json_rows(recordings: pl.DataFrame) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The values of `metadata_dicts` as column names, and an iterator of rows."""
    columns = sorted(metadata_columns(recordings).items(), key=lambda item: item[1])
    values = [json_values(recordings[stored]) for stored, _ in columns]
    rows = zip(*values, strict=True) if columns else iter([()] * recordings.height)
    return [name for _, name in columns], rows


def check_path_columns(template: str | None, columns: Iterable[str]) -> None:
    """Raise `ConfigError` if a column of `source.path_columns` is in the metadata table too.

    Args:
        template: the YAML's value.
        columns: the catalog's names of the columns of the metadata table.
    """
    stored = {} if template is None else stored_names(path_columns(template))
    if both := [name for name, column in stored.items() if column in set(columns)]:
        raise ConfigError(
            f"source.path_columns: the metadata table has a column {both[0]!r} too; write another name, or {{_}}"
        )


def check_sidecar_columns(found: Iterable[str], table: Iterable[str], template: str | None) -> None:
    """Raise `ConfigError` if a column of sidecars is in the metadata table, or in `source.path_columns`, too."""
    others = {*table, *(() if template is None else stored_names(path_columns(template)).values())} - {"path"}
    if both := sorted(others.intersection(found)):
        raise ConfigError(
            f"source.sidecars: they have {user_name(both[0])!r}, which the metadata table or source.path_columns has "
            "too; rename one"
        )


def with_path_columns(recordings: pl.DataFrame, template: str | None) -> tuple[pl.DataFrame, int]:
    """Recordings with the columns that their paths give, and the number of paths that do not have the template's form.

    Args:
        recordings: a table with `path`.
        template: the value of `source.path_columns`; None adds nothing.
    """
    if template is None:
        return recordings, 0
    expression, stored = path_expression(template), stored_names(path_columns(template))
    values = (
        pl.col("path").str.extract(expression, group).alias(name) for group, name in enumerate(stored.values(), 1)
    )
    other = recordings.filter(~pl.col("path").str.contains(expression))
    return recordings.with_columns(*values), other["path"].n_unique()


def check_types(metadata: pl.DataFrame) -> None:
    """Raise `ConfigError` for a column that cannot be stored.

    Its values are nothing that JSON has (binary data, Python objects), or its name has a zero character, as the names
    of Headrace's own columns have.
    """
    for name, dtype in metadata.schema.items():
        if "\0" in name:
            raise ConfigError(f"metadata column {name!r}: a zero character is not allowed in a name; rename the column")
        try:
            _converter(dtype)
        except TypeError as error:
            raise ConfigError(
                f"metadata column {name!r} has type {dtype}, which JSON cannot represent; drop it"
            ) from error


def check_group_by(group_by: str, types: Mapping[str, pl.DataType]) -> None:
    """Check that `group_by` names a metadata column whose values can name groups.

    Args:
        group_by: the YAML's value.
        types: type of each metadata column, by the user's name.

    Raises:
        ConfigError: there is no such column, or its values are lists or objects.
    """
    if group_by not in types:
        close = difflib.get_close_matches(group_by, types, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known = ", ".join(map(repr, sorted(types)))
        found = f"{hint}its columns are {known}" if types else "there is no metadata table: name one in source.metadata"
        raise ConfigError(f"group_by: the metadata has no column {group_by!r}; {found}")
    if types[group_by].is_nested():
        raise ConfigError(
            f"group_by: the metadata column {group_by!r} holds lists or objects; name a column of single values"
        )


_Convert = Callable[[Any], Any]


def json_values(column: pl.Series) -> list[Any]:
    """The values of a column as JSON has them, see `metadata_dicts`."""
    if column.dtype.is_float():  # the common case: no Python call per value
        return column.set(~column.is_finite(), None).to_list()
    convert = _converter(column.dtype)
    values = column.to_list()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(dtype: Any) -> _Convert | None:  # noqa: ANN401 - polars types an inner type as class or instance
    """Function that converts a non-null Python value of this type to JSON; None if no conversion is needed."""
    if isinstance(dtype, (pl.List, pl.Array)):
        return _list_converter(_converter(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return _struct_converter({field.name: _converter(field.dtype) for field in dtype.fields})
    kind = dtype.base_type()
    if kind.is_integer() or kind in {pl.String, pl.Boolean, pl.Null, pl.Categorical, pl.Enum}:
        return None
    if kind.is_float():
        return _finite
    if kind not in _OTHERS:
        raise TypeError(dtype)
    return json_of


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_OTHERS = {pl.Date, pl.Datetime, pl.Time, pl.Duration, pl.Decimal}  # that `json_of` converts


def _list_converter(inner: _Convert | None) -> _Convert | None:
    if inner is None:
        return None
    return lambda values: [None if value is None else inner(value) for value in values]


def _struct_converter(fields: dict[str, _Convert | None]) -> _Convert:
    if AS_JSON in fields:
        return _from_json(fields)

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value[name] if inner is None or value[name] is None else inner(value[name])
            for name, inner in sorted(fields.items())
        }

    return convert


def _is_escapable(name: str) -> bool:
    """Whether the name is one of Headrace's own, or one of them behind any number of prefixes."""
    while name not in OWN_COLUMNS:
        if not name.startswith(_PREFIX):
            return False
        name = name.removeprefix(_PREFIX)
    return True


def _from_json(fields: dict[str, _Convert | None]) -> _Convert:
    """A converter of values that are kept as their JSON, and of the objects of other files of the same table."""
    others = _struct_converter({name: inner for name, inner in fields.items() if name != AS_JSON})

    def convert(value: dict[str, Any]) -> Any:  # noqa: ANN401 - any value of JSON
        text = value[AS_JSON]
        return others(value) if text is None else json_value(text, parse_constant=lambda _: None)

    return convert
