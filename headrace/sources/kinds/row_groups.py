"""Reads the rows and bytes of each row group from the footer of a Parquet file, which polars does not report.

The footer is a struct in Thrift's compact protocol. Its fields are numbered:
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import io
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

_MAGIC = b"PAR1"
_TAIL = len(_MAGIC) + 4
_GROUPS, _NUM_BYTES, _NUM_ROWS = 4, 2, 3
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_MOST_VARINT_BYTES = 10
_LONG = 15  # a list with more elements than its header can say


class RowGroup(NamedTuple):
    """Numbers of a row group: its rows, and its bytes before compression."""

    num_rows: int
    num_bytes: int


def row_groups(file: BinaryIO) -> list[RowGroup]:
    """The row groups of a Parquet file, in order.

    Raises:
        OSError: the file has no readable footer.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL:
        raise OSError("the file does not end like a Parquet file")
    file.seek(size - _TAIL - length)
    try:
        groups = dict(_fields(io.BytesIO(file.read(length))))[_GROUPS]
        return [RowGroup(_count(group[_NUM_ROWS]), _count(group[_NUM_BYTES])) for group in groups]
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError, struct.error) as error:
        raise OSError(f"the footer of the Parquet file is damaged: {error!r}") from error


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a row group has {value!r} rows or bytes")
    return value


def _fields(data: io.BytesIO) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a struct."""
    number = 0
    while header := data.read(1)[0]:
        delta, kind = header >> 4, header & 15
        number = number + delta if delta else _signed(data)
        yield number, kind == _TRUE if kind in {_TRUE, _FALSE} else _value(data, kind)


def _value(data: io.BytesIO, kind: int) -> Any:  # noqa: ANN401, PLR0911 - a value of one of the protocol's types
    if kind in _INTEGERS:
        return _signed(data)
    if kind == _BINARY:
        return data.read(_varint(data))
    if kind == _STRUCT:
        return dict(_fields(data))
    if kind in {_LIST, _SET}:
        header = data.read(1)[0]
        size = _varint(data) if header >> 4 == _LONG else header >> 4
        return [_value(data, header & 15) for _ in range(size)]
    if kind == _MAP:
        return _map(data)
    if kind == _DOUBLE:
        return struct.unpack("<d", data.read(8))[0]
    if kind in {_TRUE, _FALSE, _BYTE}:
        return data.read(1)[0]
    raise TypeError(f"type {kind}")


def _map(data: io.BytesIO) -> dict[Any, Any]:
    if not (size := _varint(data)):
        return {}
    kinds = data.read(1)[0]
    return {_value(data, kinds >> 4): _value(data, kinds & 15) for _ in range(size)}


def _varint(data: io.BytesIO) -> int:
    value = 0
    for at in range(_MOST_VARINT_BYTES):
        byte = data.read(1)[0]
        value |= (byte & 127) << 7 * at
        if byte < 128:
            return value
    raise ValueError("a number does not end")


def _signed(data: io.BytesIO) -> int:
    value = _varint(data)
    return value >> 1 ^ -(value & 1)
