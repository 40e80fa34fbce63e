"""Parses `tf.train.Example` (protobuf's wire format) without TensorFlow: features by name, with the places of bytes.

    Example {1: Features {1: entry {1: name, 2: Feature {1: BytesList | 2: FloatList | 3: Int64List}}}}

A list has its values in field 1; numbers may be packed. Unknown fields are skipped. No length is trusted.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10
_MOST_FEATURES = 1000
_INT64 = 1 << 63
_LISTS = {1: "bytes", 2: "float", 3: "int"}

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of an Example.

    Attributes:
        form: `bytes`, `float`, `int`, or empty for a feature without a list.
        values: for `bytes` the first byte and the end of each value in the Example, else numbers.
        is_long: whether there are more values than were asked for; then `values` is empty.
    """

    form: str
    values: tuple[Span, ...] | tuple[float, ...] | tuple[int, ...] = ()
    is_long: bool = False


def features_of(data: bytes, most_values: int) -> dict[str, Feature]:
    """Name → feature of an Example; of equal names the last one counts.

    Args:
        data: the Example.
        most_values: longer lists are not parsed.

    Raises:
        ValueError: it is no Example, is damaged, or has more than 1,000 features.
    """
    found: dict[str, Feature] = {}
    for features in _parts(data, (0, len(data)), 1):
        for entry in _parts(data, features, 1):
            name, feature = _last(data, entry, 1), _last(data, entry, 2)
            text = data[slice(*name)].decode() if name else ""
            if len(found) == _MOST_FEATURES:
                raise ValueError(f"more than {_MOST_FEATURES} features")
            found[text] = _feature(data, feature, most_values) if feature else Feature("")
    return found


def _feature(data: bytes, span: Span, most_values: int) -> Feature:
    for number, kind, value in _fields(data, span):
        if number in _LISTS and kind == _BYTES:
            return _list(data, _LISTS[number], value, most_values)
    return Feature("")


def _list(data: bytes, form: str, span: Span, most_values: int) -> Feature:
    if form == "bytes":
        spans = tuple(islice(_parts(data, span, 1), most_values + 1))
        return Feature(form, is_long=True) if len(spans) > most_values else Feature(form, spans)
    numbers: list[float] = []
    for number, kind, value in _fields(data, span):
        if number == 1:
            numbers.extend(_numbers(data, form, kind, value, most_values - len(numbers) + 1))
        if len(numbers) > most_values:
            return Feature(form, is_long=True)
    return Feature(form, tuple(numbers))


def _numbers(data: bytes, form: str, kind: int, span: Span, most: int) -> Iterator[float]:
    """Numbers of a field, packed or one; at most this many."""
    start, stop = span
    if form == "float":
        if (stop - start) % 4:
            raise ValueError("a list of floats ends within a float")
        yield from (value for (value,) in struct.iter_unpack("<f", data[start : min(stop, start + 4 * most)]))
    elif kind == _VARINT:
        yield _signed(_varint(data, start, stop)[0])
    else:
        while start < stop and most:
            value, start = _varint(data, start, stop)
            yield _signed(value)
            most -= 1


def _signed(value: int) -> int:
    return (value & (2 * _INT64 - 1) ^ _INT64) - _INT64


def _parts(data: bytes, span: Span, wanted: int) -> Iterator[Span]:
    """The spans of a field of bytes that may be repeated."""
    return (value for number, kind, value in _fields(data, span) if number == wanted and kind == _BYTES)


def _last(data: bytes, span: Span, wanted: int) -> Span | None:
    return next(iter(deque(_parts(data, span, wanted), maxlen=1)), None)


def _fields(data: bytes, span: Span) -> Iterator[tuple[int, int, Span]]:
    """The fields of a message: number, wire type, and where the value is."""
    at, stop = span
    while at < stop:
        tag, at = _varint(data, at, stop)
        kind, start = tag & 7, at
        if kind == _VARINT:
            _, at = _varint(data, at, stop)
        elif kind == _BYTES:
            length, start = _varint(data, at, stop)
            at = start + length
        elif kind in {_WIDE, _NARROW}:
            at += 8 if kind == _WIDE else 4
        else:
            raise ValueError(f"a field has the wire type {kind}")
        if at > stop:
            raise ValueError("a field ends behind its message")
        yield tag >> 3, kind, (start, at)


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """A number, and the byte after it."""
    value = 0
    for shift, byte in enumerate(data[at : min(stop, at + _MOST_VARINT_BYTES)]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise ValueError("a number does not end")
