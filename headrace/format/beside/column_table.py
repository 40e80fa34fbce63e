"""Reads and writes columns of one shard: values beside the samples, in the shard's order, as arrays.

A `.columns` file has one row for each sample of the audio shard with the same split, bucket and sequence number. It is
a file of named arrays (`tables`), so numpy alone reads it. `column_files` finds, reads and publishes these files.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, FormatError
from headrace.format import tables
from headrace.format.beside.intervals import Intervals, without_times
from headrace.format.lazy import cached_property
from headrace.format.typed_json import json_value, typed

FORMAT_VERSION = 1
_FORMAT_KEY = "headrace_columns"
_INT64 = range(-(1 << 63), 1 << 63)
_MANY_COLUMNS, _FEW_VALUES = 2000, 0.1


class ColumnKind(StrEnum):
    """The type of a column's values; every value may also be null."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    JSON = "json"
    """Lists and objects."""
    INTERVALS = "intervals"
    """Lists of `{start, end, …}`, in seconds: arrays of times, and the other names as JSON."""

    @property
    def is_text(self) -> bool:
        """Whether values are stored as UTF-8 text; those of intervals without their times."""
        return self is ColumnKind.STRING or self.is_nested

    @property
    def is_nested(self) -> bool:
        """Whether values are lists and objects."""
        return self in {ColumnKind.JSON, ColumnKind.INTERVALS}


_DTYPES: dict[ColumnKind, str] = {
    ColumnKind.STRING: "<u1",
    ColumnKind.JSON: "<u1",
    ColumnKind.INTERVALS: "<u1",
    ColumnKind.BOOL: "<u1",
    ColumnKind.INT: "<i8",
    ColumnKind.FLOAT: "<f8",
}


_NOTHING: NDArray[Any] = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Name and type of a column.

    Attributes:
        name: the name in the user's table, or the name of a fact.
        kind: type of the values.
        is_fact: whether the column is a fact of the catalog. A user's column may have the same name.
    """

    name: str
    kind: ColumnKind
    is_fact: bool = False


@dataclass(frozen=True)
class Column:
    """The values of one column for n samples.

    Attributes:
        spec: name and type.
        is_valid: bool (n,), False where the value is null.
        values: int64, float64 or uint8 (n,); 0 where the value is null. For text: uint8, all texts in UTF-8, end to
            end; the text of a list or an object is JSON.
        offsets: int32 or int64 (n + 1,), where each text begins in `values`; empty for numbers.
        intervals: the times of intervals, whose other names are the text; None for other types.
    """

    spec: ColumnSpec
    is_valid: NDArray[np.bool_]
    values: NDArray[Any]
    offsets: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int32))
    intervals: Intervals | None = None

    @classmethod
    def of(cls, spec: ColumnSpec, values: Sequence[Any]) -> "Column":
        """A column of Python values; None is null, and so are floats that are not finite.

        Raises:
            ConfigError: an integer does not fit 64 bits with a sign.
        """
        is_valid = np.array([value is not None for value in values], np.bool_)
        if spec.kind.is_text:
            texts = [b"" if value is None else _text(spec.kind, value) for value in values]
            ends = np.cumsum([0, *map(len, texts)])
            offsets = ends.astype(np.int32 if ends[-1] <= np.iinfo(np.int32).max else np.int64)
            times = Intervals.of(values) if spec.kind is ColumnKind.INTERVALS else None
            return cls(spec, is_valid, np.frombuffer(b"".join(texts), np.uint8), offsets, times)
        if spec.kind is ColumnKind.INT and (
            big := next((v for v in values if v is not None and v not in _INT64), None)
        ):
            raise ConfigError(f"column {spec.name!r}: {big} does not fit a 64-bit integer; write it as text or a float")
        array = np.array([0 if value is None else value for value in values], _DTYPES[spec.kind])
        if spec.kind is ColumnKind.FLOAT:
            is_valid &= np.isfinite(array)
            array[~is_valid] = 0
        return cls(spec, is_valid, array)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.is_valid)

    @property
    def num_nulls(self) -> int:
        """Number of rows without a value."""
        return len(self) - int(self.is_valid.sum())

    def value(self, row: int) -> Any:  # noqa: ANN401 - the user's values
        """The value of one row: None, str, int, float, bool, list or dict.

        Raises:
            FormatError: it is text that is not UTF-8, or not JSON.
        """
        if not self.is_valid[row]:
            return None
        if not self.spec.kind.is_text:
            value = self.values[row].item()
            return bool(value) if self.spec.kind is ColumnKind.BOOL else value
        blob = self.values[self.offsets[row] : self.offsets[row + 1]].tobytes()
        try:
            text = blob.decode()
            value = json_value(text) if self.spec.kind.is_nested else text
            return value if self.intervals is None else self.intervals.row(row, _objects(value))
        except ValueError as error:
            raise FormatError(f"column {self.spec.name!r}, row {row}: {error}; {tables.WAY_OUT}") from error

    def take(self, rows: Iterable[int]) -> list[Any]:
        """The values of some rows; see `value`."""
        return [self.value(row) for row in rows]

    def as_text(self) -> "Column":
        """A column of text with the same values; lists and objects are JSON."""
        spec = replace(self.spec, kind=ColumnKind.STRING)
        if self.intervals is None:
            return replace(self, spec=spec)
        values = self.take(range(len(self)))
        return Column.of(spec, [None if value is None else _text(ColumnKind.JSON, value).decode() for value in values])

    def grouped(self) -> tuple[list[int], NDArray[np.int64]]:
        """The first row of each distinct value, in the order of rows; and the number of each row's, int64 (n,)."""
        if self.spec.kind.is_text:
            blob, bounds = self.values.tobytes(), self.offsets.tolist()
            found: list[Any] = [blob[start:stop] for start, stop in pairwise(bounds)]
        else:
            found = self.values.tolist()
        if self.num_nulls:
            found = [value if valid else None for value, valid in zip(found, self.is_valid.tolist(), strict=True)]
        numbers: dict[Any, int] = {}
        groups = np.array([numbers.setdefault(value, len(numbers)) for value in found], np.int64)
        return np.unique(groups, return_index=True)[1].tolist(), groups

    def numbers(self, rows: Any = slice(None)) -> NDArray[np.float64]:  # noqa: ANN401 - any index of numpy
        """The values of some rows as float64, NaN where they are null; true is 1.

        Raises:
            ConfigError: the column is text.
        """
        if self.spec.kind.is_text:
            raise ConfigError(f"column {self.spec.name!r}: its values are {self.spec.kind}, not numbers")
        return np.where(self.is_valid[rows], self.values[rows], np.nan)

    @classmethod
    def of_arrays(cls, spec: ColumnSpec, arrays: Mapping[str, NDArray[Any]], number: int, rows: int) -> "Column":
        """Column `number` of a file.

        Nothing is allocated before the arrays of the file have `rows` rows.

        Raises:
            ValueError: its arrays do not fit.
        """
        names = (f"{number}.{part}" for part in ("values", "offsets", "valid"))
        values, offsets, valid = (arrays.get(name, _NOTHING) for name in names)
        num_values = offsets.size - 1 if spec.kind.is_text else values.size
        if (
            num_values != rows
            or (valid is not _NOTHING and valid.size != rows)
            or values.dtype != _DTYPES[spec.kind]
            or (spec.kind.is_text and offsets.dtype not in {np.dtype("<i4"), np.dtype("<i8")})
            or valid.dtype != np.uint8
            or {values.ndim, offsets.ndim, valid.ndim} != {1}
        ):
            raise ValueError(f"column {spec.name!r} does not have {rows} values of type {spec.kind}")
        if spec.kind.is_text and (offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any()):
            raise ValueError(f"column {spec.name!r}: its texts do not fit the {len(values)} bytes of all of them")
        if valid.max(initial=0) > 1:
            raise ValueError(f"column {spec.name!r} says {valid.max()} where 0 or 1 says whether there is a value")
        is_valid = np.ones(rows, np.bool_) if valid is _NOTHING else valid.view(np.bool_)
        times = Intervals.of_arrays(arrays, number, rows) if spec.kind is ColumnKind.INTERVALS else None
        return cls(spec, is_valid, values, offsets, times)

    def arrays(self, number: int) -> dict[str, NDArray[Any]]:
        """The arrays of this column in a file, as column `number`."""
        arrays = {f"{number}.values": self.values} | ({} if self.intervals is None else self.intervals.arrays(number))
        if self.spec.kind.is_text:
            arrays[f"{number}.offsets"] = self.offsets
        if self.num_nulls:
            arrays[f"{number}.valid"] = self.is_valid.view(np.uint8)
        return arrays


def why_too_many(names: Sequence[str], num_given: int, num_rows: int) -> str | None:
    """The fault of columns of which each row has few: as many as rows, and each row gets all; None for others.

    Args:
        names: the columns.
        num_given: number of names of all rows.
        num_rows: number of rows.
    """
    if len(names) <= _MANY_COLUMNS or num_given >= _FEW_VALUES * len(names) * num_rows:
        return None
    return f"{len(names):,} names ({names[-1]!r} is one), of which a row has {num_given / num_rows:.3g} on average"


@dataclass(frozen=True)
class ColumnTable:
    """The columns of one shard.

    Attributes:
        columns: the columns, each with one row for each sample of the audio shard, in its order.
        num_rows: number of rows.
        keys_sha256: digest of the keys of the samples, see `keys_digest`.
        input_digest: digest of everything that the file is made from.
        name: the file that it was read from, for messages.
    """

    columns: tuple[Column, ...]
    num_rows: int
    keys_sha256: str
    input_digest: str
    name: str = field(default="", compare=False)

    def __len__(self) -> int:
        """Number of rows."""
        return self.num_rows

    @property
    def specs(self) -> tuple[ColumnSpec, ...]:
        """Names and types of the columns."""
        return tuple(column.spec for column in self.columns)

    def column(self, name: str, *, is_fact: bool = False) -> Column:
        """The user's column of this name, or the fact.

        Raises:
            FormatError: the file has no such column, so it is not of the snapshot that lists it.
        """
        try:
            return self._by_name[is_fact, name]
        except KeyError as error:
            raise FormatError(
                f"the file of columns {self.name} lacks the column {name!r}, which its snapshot lists; build the "
                "columns again"
            ) from error

    def row(self, row: int) -> dict[str, Any]:
        """All values of a row by name; of a user's column and a fact with one name, the user's."""
        facts_first = sorted(self.columns, key=lambda column: not column.spec.is_fact)
        return {column.spec.name: column.value(row) for column in facts_first}

    @cached_property
    def _by_name(self) -> dict[tuple[bool, str], Column]:
        return {(column.spec.is_fact, column.spec.name): column for column in self.columns}

    def to_bytes(self, salt: int = 0) -> bytes:
        """The bytes of a `.columns` file; equal tables give equal bytes.

        Args:
            salt: another number gives other bytes with the same content, and so another name.
        """
        metadata = {
            _FORMAT_KEY: str(FORMAT_VERSION),
            "columns": json.dumps([asdict(spec) for spec in self.specs], ensure_ascii=False),
            "num_rows": str(self.num_rows),
            "keys_sha256": self.keys_sha256,
            "input_digest": self.input_digest,
            **({"salt": str(salt)} if salt else {}),
        }
        arrays: dict[str, NDArray[Any]] = {}
        for number, column in enumerate(self.columns):
            arrays |= column.arrays(number)
        return tables.pack(arrays, metadata)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ColumnTable":
        """Parse a `.columns` file; arrays are read-only views of `blob`.

        Raises:
            FormatError: not such a file, cut off, damaged, of a newer format, or it contradicts itself.
        """
        arrays, metadata = tables.unpack(blob, name)
        if (found := metadata.get(_FORMAT_KEY, "none")) != str(FORMAT_VERSION):
            raise FormatError(f"{name}: format of columns {found}, this version reads {FORMAT_VERSION}; build again")
        try:
            specs = typed(list[ColumnSpec], json_value(metadata["columns"]))
            rows = typed(int, json_value(metadata["num_rows"]))
            if rows and not specs:
                raise ValueError(f"{rows} rows without columns")  # noqa: TRY301 - translated with the others
            columns = tuple(Column.of_arrays(spec, arrays, number, rows) for number, spec in enumerate(specs))
            return cls(columns, rows, metadata["keys_sha256"], metadata["input_digest"], name)
        except (KeyError, ValueError) as error:
            raise FormatError(f"{name}: incomplete columns ({error!r}); {tables.WAY_OUT}") from error


def keys_digest(keys: Iterable[str]) -> str:
    """SHA-256 (hex) of the keys of a shard's samples in order, one per line: columns with another digest do not fit."""
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()


def _objects(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON
    """A list of objects of JSON: `typed` is slow for all intervals, which each window of a sample reads."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("expected a list of objects")
    return value


def _text(kind: ColumnKind, value: object) -> bytes:
    if kind is ColumnKind.INTERVALS:
        value = without_times(cast("Any", value))
    if kind.is_nested:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return str(value).encode()
