"""Finds the types of the columns of a table whose cells are text, by fixed rules.

The rules are not those of a library, which may change and would then make every recording stale. A column is integer,
float, boolean or list only if every non-empty cell is written that way, so `007` stays text and keeps its zeros. Dates
stay text, because JSON has no dates. The cells may be given in pieces, so that no column needs to fit in memory.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from headrace.format.typed_json import json_value

_INTEGER_LIMIT = 1 << 63
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_FLOAT = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(?i)[+-]?(nan|inf|infinity)$"
_BOOLEAN = r"^(?i)(true|false)$"
TRUE_CELLS = ("true", "1")
"""Spellings of a true cell in lower case; `1` only in a column whose type is declared."""
_LIST = r"^\[[\s\S]*\]$"


@dataclass(slots=True)
class _Elements:
    """The elements of all lists of a column, or of all lists in these."""

    kinds: set[type] = field(default_factory=set)
    least: int = 0
    most: int = 0
    inner: "_Elements | None" = None

    def add(self, lists: Iterable[list[Any]]) -> None:
        """Look at some lists. Raises `ValueError` for a text that is not Unicode."""
        elements = [element for element in itertools.chain.from_iterable(lists) if element is not None]
        kinds = set(map(type, elements))
        self.kinds |= kinds
        if kinds == {int}:
            elements += [self.least, self.most]
            self.least, self.most = min(elements), max(elements)
        elif kinds == {list}:
            self.inner = self.inner or _Elements()
            self.inner.add(elements)
        elif kinds == {str}:
            "".join(elements).encode()  # half of a surrogate pair is a ValueError; polars would make it a zero byte

    @property
    def dtype(self) -> pl.DataType | None:
        """Common type of all elements, or None. Inference by polars would turn 0.5 after 1 into 0."""
        kinds = self.kinds
        if kinds == {int}:
            return pl.Int64() if self.least >= -_INTEGER_LIMIT and self.most < _INTEGER_LIMIT else None
        if kinds == {list}:
            dtype = None if self.inner is None else self.inner.dtype
            return None if dtype is None else pl.List(dtype)
        types = {frozenset({bool}): pl.Boolean(), frozenset({str}): pl.String(), frozenset(): pl.String()}
        return pl.Float64() if kinds and kinds <= {int, float} else types.get(frozenset(kinds))


@dataclass(slots=True)
class TypeFinder:
    """Finds the type of one column. Each piece of it is given to `add`; then `dtype` is its type."""

    _patterns: list[str] = field(default_factory=lambda: [_INTEGER, _FLOAT, _BOOLEAN, _LIST])  # that all cells match
    _fits: bool = True
    _is_empty: bool = True
    _elements: _Elements | None = field(default_factory=_Elements)  # None: some are not valid JSON

    def add(self, cells: pl.Series) -> None:
        """Look at a piece of the column (text)."""
        filled = _bare(cells).drop_nulls()
        if filled.is_empty():
            return
        self._is_empty = False
        if _INTEGER in self._patterns and _all_match(filled, _INTEGER):  # such cells match `_FLOAT` as well
            self._patterns = [_INTEGER, _FLOAT]
            self._fits = self._fits and filled.cast(pl.Int64, strict=False).null_count() == 0
            return
        self._patterns = [pattern for pattern in self._patterns if pattern != _INTEGER and _all_match(filled, pattern)]
        if _LIST in self._patterns and self._elements is not None and not _are_lists(filled, self._elements):
            self._elements = None

    @property
    def is_empty(self) -> bool:
        """Whether the column has no value so far."""
        return self._is_empty

    @property
    def dtype(self) -> pl.DataType:
        """The type of the column. Whether lists can be read as this type is known only when they are (`converted`)."""
        if self._is_empty or not self._patterns:
            return pl.String()
        if self._patterns[0] == _INTEGER:
            return pl.Int64() if self._fits else pl.String()  # integers beyond int64 would lose digits as floats
        if self._patterns[0] == _LIST:
            dtype = None if self._elements is None else self._elements.dtype
            return pl.String() if dtype is None else pl.List(dtype)
        return pl.Float64() if self._patterns[0] == _FLOAT else pl.Boolean()


def converted(cells: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Cells (text) of a column as the type of the column. Empty cells become null.

    Raises:
        polars.exceptions.PolarsError: a cell is a list that Python can read as JSON, and polars cannot.
    """
    if dtype in {pl.String, pl.Null}:
        return cells.replace("", None).cast(dtype)
    bare = _bare(cells)
    if dtype == pl.Boolean:
        return bare.str.to_lowercase().is_in(TRUE_CELLS)
    return bare.str.json_decode(dtype) if dtype.is_nested() else bare.cast(dtype)


def typed(cells: pl.Series) -> pl.Series:
    """Convert a column of text to the type that every non-empty cell is written in. Empty cells become null.

    >>> typed(pl.Series(["1", "", "2.5"])).to_list()
    [1.0, None, 2.5]
    >>> typed(pl.Series(["007", "12"])).to_list()
    ['007', '12']
    >>> typed(pl.Series(["1", "12345678901234567890"])).to_list()
    ['1', '12345678901234567890']
    >>> typed(pl.Series(["[1, 2]", ""])).to_list()
    [[1, 2], None]
    """
    return converted(cells, type_of_column([cells]))


def type_of_column(pieces: Iterable[pl.Series]) -> pl.DataType:
    """The type of a column that is given in pieces. They are read a second time if the column has lists."""
    finder = TypeFinder()
    for cells in pieces:
        finder.add(cells)
    dtype = finder.dtype
    return checked_lists(pieces, dtype) if isinstance(dtype, pl.List) else dtype


def checked_lists(pieces: Iterable[pl.Series], dtype: pl.DataType) -> pl.DataType:
    """The type of a column of lists: `dtype`, or text if a cell cannot be read as that."""
    try:
        for cells in pieces:
            converted(cells, dtype)
    except pl.exceptions.PolarsError:
        return pl.String()
    return dtype


def _bare(cells: pl.Series) -> pl.Series:
    """Cells without the spaces around them; empty ones are null."""
    return cells.replace("", None).str.strip_chars()


def _all_match(filled: pl.Series, pattern: str) -> bool:
    return bool(filled.str.contains(pattern).all())


def _are_lists(filled: pl.Series, elements: _Elements) -> bool:
    """Whether all cells are valid JSON. Their elements are added to `elements`."""
    try:
        elements.add(json_value(cell) for cell in filled)
    except (ValueError, RecursionError):
        return False
    return True
