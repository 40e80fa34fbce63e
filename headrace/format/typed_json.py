"""Reads dataclasses from JSON, comparing every value with the type of its field.

A file with a valid checksum may still be forged, or be written by another program, so its numbers and texts are
compared before anything relies on them. Which files there are, and what their fields mean, is decided elsewhere.
"""

import functools
import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from headrace.errors import FormatError

T = TypeVar("T")

COUNTS = range(1 << 63)
"""The integers that a field may have, unless its type is `Annotated[int, range(…)]`: all that numpy counts with."""
AS_JSON = "\0json"
"""The only name of an object that stands for a value of a table which is kept as its JSON: a text, under this name."""
_LARGEST = 1.7976931348623157e308
_SHOWN = 60
_Reader = Callable[[Any], Any]


def json_value(text: str | bytes, **hooks: Callable[..., Any] | None) -> Any:  # noqa: ANN401 - any JSON
    """The value of a JSON text. Raises `ValueError` if it is not valid, or nested too deeply for Python's parser.

    Args:
        text: the JSON.
        hooks: `object_pairs_hook` and the like, see `json.loads`.
    """
    try:
        return json.loads(text, **cast("Any", hooks))
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error


def strict_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:  # noqa: ANN401 - any value of JSON
    """A value of JSON. Raises `ValueError` if it is not valid, or has an object with one name twice.

    Args:
        text: the JSON.
        parse_constant: what to do with NaN, Infinity and -Infinity; None reads them as numbers.
    """
    return json_value(text, object_pairs_hook=_without_doubles, parse_constant=parse_constant)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice; which value counts is not defined: keep one")
    return found


def json_object(text: str | bytes) -> dict[str, Any]:
    """The object of a JSON text. Raises `ValueError` if it is not valid, or not an object."""
    return _object(json_value(text))


def sample_json(text: bytes, shard: str, key: str) -> dict[str, Any]:
    """The JSON of a sample of a shard that Headrace wrote.

    Raises:
        FormatError: it is not a JSON object, or its `headrace` is not one.
    """
    try:
        found = json_object(text)
        _object(found.get("headrace", {}))
    except ValueError as error:
        raise FormatError(
            f"{shard}: sample {key!r}: its .json is not valid ({error}); build the shard again"
        ) from error
    return found


def typed(kind: type[T], content: object) -> T:
    """The value that `asdict` and `json.dumps` made this JSON of.

    Args:
        kind: its type: a number, text or enum, a dataclass, or a list, tuple or dict of these.
        content: the JSON.

    Raises:
        ValueError: a field is missing, unknown, or not of its type; the message has its name, and what was found.
    """
    return cast("T", _reader(cast("Hashable", kind))(content))


def _record(kind: type[T], content: Any) -> T:  # noqa: ANN401 - any JSON
    """A dataclass from a JSON object."""
    known, required = _fields_of(cast("Hashable", kind))
    _object(content)
    if not known.keys() >= content.keys() >= required:
        odd = sorted({*content} - {*known} | required - {*content}, key=str)
        raise ValueError(f"expected the fields {', '.join(known)}; missing or unknown: {shown(odd[0])}")
    values = {}
    for name, value in content.items():
        try:
            values[name] = known[name](value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return kind(**values)


@functools.cache
def _fields_of(kind: Any) -> tuple[dict[str, _Reader], frozenset[str]]:  # noqa: ANN401 - a dataclass
    """The reader of each field of a dataclass, and the fields without a default."""
    hints = get_type_hints(kind, include_extras=True)
    own = [field for field in fields(kind) if field.init]
    required = (f.name for f in own if f.default is MISSING and f.default_factory is MISSING)
    return {field.name: _reader(hints[field.name]) for field in own}, frozenset(required)


@functools.cache
def _reader(kind: Any) -> _Reader:  # noqa: ANN401, PLR0911 - a type; one return for each kind of type
    """The function that returns a value of this type, or raises `ValueError`."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return functools.partial(_whole, inner[1])
    if origin in {Union, types.UnionType}:
        (single,) = (_reader(one) for one in inner if one is not types.NoneType)
        return lambda value: None if value is None else single(value)
    if origin in {dict, Mapping}:
        return functools.partial(_table, _reader(inner[1]))
    if origin in {list, tuple}:
        return _sequence_reader(cast("type", origin), inner)
    if is_dataclass(kind):
        return functools.partial(_record, cast("type", kind))
    if issubclass(kind, Enum):
        return cast("_Reader", kind)
    raise TypeError(f"fields of type {kind} cannot be read from JSON")


def _sequence_reader(origin: type, inner: tuple[Any, ...]) -> _Reader:
    readers = [_reader(one) for one in inner if one is not ...]
    if origin is list or ... in inner:
        return lambda value: origin(map(readers[0], _items(value)))
    return lambda value: origin(read(one) for read, one in zip(readers, _items(value, len(readers)), strict=True))


def _items(value: Any, count: int | None = None) -> list[Any]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list | tuple) or count not in {None, len(value)}:
        raise ValueError(f"expected a list{'' if count is None else f' of {count}'}, found {shown(value)}")
    return cast("list[Any]", value)


def _table(read: _Reader, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {_text(name): read(one) for name, one in _object(value).items()}


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {shown(value)}")  # noqa: TRY004 - one kind for callers
    return value


def _whole(allowed: range, value: Any) -> int:  # noqa: ANN401 - any JSON
    if type(value) is not int or value not in allowed:
        raise ValueError(f"expected a whole number from {allowed.start} to {allowed[-1]}, found {shown(value)}")
    return value


def _number(value: Any) -> float:  # noqa: ANN401 - any JSON
    if type(value) not in {int, float} or not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"expected a finite number, found {shown(value)}")
    return cast("float", value)


def _flag(value: Any) -> bool:  # noqa: ANN401 - any JSON
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {shown(value)}")  # noqa: TRY004 - one kind for callers
    return value


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {shown(value)}")  # noqa: TRY004 - one kind for callers
    if not value.isascii():
        value.encode()  # raises a ValueError for half of a surrogate pair, which no file can be named by
    return value


def _anything(value: Any) -> Any:  # noqa: ANN401 - any JSON
    json.dumps(value, ensure_ascii=False).encode()  # raises a ValueError for text that cannot be written
    return value


def shown(value: object) -> str:
    """A value of a JSON in at most 60 characters, for messages."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = f"{value:.6g}" if type(value) is int else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_PLAIN: dict[Any, _Reader] = {
    int: functools.partial(_whole, COUNTS),
    float: _number,
    str: _text,
    bool: _flag,
    Any: _anything,
}


def json_of(value: Any) -> str | float:  # noqa: ANN401 - date, datetime and time share a method and no base
    """A value that JSON has not, as JSON: dates and times as in ISO 8601, durations in seconds, decimals as floats.

    >>> json_of(timedelta(minutes=1)), json_of(Decimal("1.10"))
    (60.0, 1.1)
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
