"""Packs named arrays into one blob and unpacks them: the binary form of indexes and of a snapshot's table of shards.

The layout is safetensors' (https://github.com/huggingface/safetensors#format): a little-endian u64 with the length of
the header, a JSON header with dtype, shape and byte range of every array and a `__metadata__` object of strings, then
the bytes of the arrays. Numpy alone reads it, and so does the safetensors library. Equal content gives equal bytes. A
million rows open as fast as they are read, which JSON, SQLite and `.npz` do not offer.

The header begins with a CRC-32 of the whole file, computed with zeros in place of the checksum's own eight digits. It
is compared before anything else is parsed, so a change of any bit is an error.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace import checksums
from headrace.errors import FormatError
from headrace.format.typed_json import json_value

_CODES = {"U8": "<u1", "U16": "<u2", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8"}
_DTYPES = {name: np.dtype(code) for name, code in _CODES.items()}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ALIGNMENT_BYTES = 8
_CHECKSUM = "crc32"
_NO_CHECKSUM = b"00000000"
_OPENING = b'{"__metadata__":{"crc32":"'
_CHECKSUM_AT = 8 + len(_OPENING)
_AFTER_CHECKSUM = _CHECKSUM_AT + len(_NO_CHECKSUM)

WAY_OUT = "`headrace verify` says whether the stored file itself is damaged; if so, build or index again"
"""Advice about a damaged file. It never says "delete it": the stored file may be sound."""


def pack(arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]) -> bytes:
    """One blob of named arrays of any shape, string metadata and a checksum of both.

    Args:
        arrays: the arrays by name: uint8, uint16, int16, int32, int64 or float64.
        metadata: strings by name; the name `crc32` is reserved.
    """
    return b"".join(packed_pieces(arrays, metadata))


def packed_pieces(arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """The blob of `pack` in pieces: those of the arrays are their own memory, where that is contiguous."""
    header: dict[str, Any] = {}
    blobs: list[memoryview] = []
    offset = 0
    for name, array in sorted(
        arrays.items(), key=lambda item: -item[1].dtype.itemsize
    ):  # wide dtypes first, so that all are aligned
        blob = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data
        dtype = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    header = {"__metadata__": {_CHECKSUM: _NO_CHECKSUM.decode(), **dict(sorted(metadata.items()))}, **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT_BYTES)
    length, checksum = len(text).to_bytes(8, "little"), 0
    pieces: list[bytes | memoryview] = [length, text, *blobs]
    for piece in pieces:
        checksum = checksums.crc32(piece, checksum)
    return [length, text.replace(_NO_CHECKSUM, b"%08x" % checksum, 1), *blobs]


def unpack(blob: bytes | memoryview, name: str) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Arrays (read-only views of `blob`, nothing copied) and metadata of a packed blob.

    Args:
        blob: the result of `pack`.
        name: the file's name, for messages.

    Raises:
        FormatError: not a packed blob, cut off, or changed since it was packed.
    """
    if blob[8:_CHECKSUM_AT] != _OPENING or len(blob) < _AFTER_CHECKSUM:
        raise FormatError(
            f"{name}: not a Headrace table, or damaged: byte 8 should begin {_OPENING.decode()}…; {WAY_OUT}"
        )
    expected, found = bytes(blob[_CHECKSUM_AT:_AFTER_CHECKSUM]), _checksum(blob)
    if expected != found:
        raise FormatError(
            f"{name}: damaged: CRC-32 {expected.decode(errors='replace')} expected, {found.decode()} found; {WAY_OUT}"
        )
    return unpack_verified(blob, name)


def unpack_verified(blob: bytes | memoryview, name: str) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Unpack a blob whose SHA-256 has been compared: its own checksum is not computed again."""
    try:
        length = int.from_bytes(blob[:8], "little")
        header = json_value(bytes(blob[8 : 8 + length]))
        metadata = {str(key): str(text) for key, text in header.pop("__metadata__").items() if key != _CHECKSUM}
        body = memoryview(blob)[8 + length :]
        arrays = {key: _view(body, spec) for key, spec in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{name}: not a Headrace table ({error}); {WAY_OUT}") from error
    return arrays, metadata


def checked(
    arrays: Mapping[str, np.ndarray[Any, Any]], forms: Mapping[str, tuple[Any, ...]], name: str
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that a file must have, each with one row for every row of the others.

    Args:
        arrays: the arrays of the file.
        forms: by name, the dtype of an array and its lengths after the first.
        name: the file's name, for messages.

    Raises:
        FormatError: one is missing, or has another form.
    """
    num_rows: int | None = None
    for key, (dtype, *rest) in forms.items():
        found = arrays.get(key)
        if found is None or found.ndim != 1 + len(rest) or found.dtype != dtype or found.shape[1:] != tuple(rest):
            what = "nothing" if found is None else f"{found.dtype} {found.shape}"
            wanted = f"{np.dtype(dtype)} {('n', *rest)}".replace("'", "")
            raise FormatError(f"{name}: the array {key!r} should be {wanted}, found {what}; {WAY_OUT}")
        num_rows = len(found) if num_rows is None else num_rows
        if len(found) != num_rows:
            raise FormatError(f"{name}: the array {key!r} has {len(found)} rows, others {num_rows}; {WAY_OUT}")
    return {key: arrays[key] for key in forms}


def _checksum(blob: bytes | memoryview) -> bytes:
    """CRC-32 of a blob with zeros in place of its own checksum, as eight hex digits."""
    view = memoryview(blob)
    found = checksums.crc32(view[_AFTER_CHECKSUM:], checksums.crc32(_NO_CHECKSUM, checksums.crc32(view[:_CHECKSUM_AT])))
    return b"%08x" % found


def _view(body: memoryview, spec: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    start, stop = spec["data_offsets"]
    shape, dtype = spec["shape"], _DTYPES[spec["dtype"]]
    if any(type(number) is not int or number < 0 for number in (start, stop, *shape)):
        raise ValueError(f"an array of shape {shape} at bytes {start}..{stop}")
    count = math.prod(shape)
    if stop - start != count * dtype.itemsize or stop > len(body):
        raise ValueError(f"array of {count} x {dtype} does not fit bytes {start}..{stop} of {len(body)}")
    array = np.frombuffer(body, dtype, count, start)
    return array if len(shape) == 1 else array.reshape(shape)
