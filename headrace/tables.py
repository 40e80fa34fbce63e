"""Named arrays in one blob: the binary form of shard indexes and of a snapshot's table of shards.

The layout is safetensors' (https://github.com/huggingface/safetensors#format): a little-endian u64 with the header's
length, a JSON header that gives dtype, shape and byte range of every array and a `__metadata__` object of strings, then
the bytes. Numpy alone reads it, so does the safetensors library; equal content gives equal bytes; and a million rows
open as fast as they can be read, which JSON, SQLite and `.npz` do not.
"""

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import FormatError

_DTYPES = {name: np.dtype(code) for name, code in {"U8": "<u1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}.items()}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ALIGNMENT_BYTES = 8
_CHECKSUM = "crc32"
_WAY_OUT = "remove it and build again, or fetch it again"


def pack(
    arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str], *, has_checksum: bool = False
) -> bytes:
    """One blob of named arrays (uint8, int16, int32 or int64; any shape) and string metadata.

    Args:
        arrays: what to pack.
        metadata: what else to say.
        has_checksum: add the CRC-32 of the arrays' bytes, which `unpack` compares.
    """
    header: dict[str, Any] = {}
    blobs: list[bytes] = []
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):  # wide first: all aligned
        blob = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        dtype = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    checksum = {_CHECKSUM: _checksum(b"".join(blobs))} if has_checksum else {}
    header = {"__metadata__": dict(sorted({**metadata, **checksum}.items())), **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT_BYTES)
    return b"".join([len(text).to_bytes(8, "little"), text, *blobs])


def unpack(blob: bytes | memoryview, name: str) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Arrays (read-only views of `blob`, nothing copied) and metadata of a packed blob.

    Args:
        blob: what `pack` returned.
        name: the file's name, for messages.

    Raises:
        FormatError: not such a blob, cut off, or with arrays that were changed since.
    """
    try:
        length = int.from_bytes(blob[:8], "little")
        header = json.loads(bytes(blob[8 : 8 + length]))
        metadata = dict[str, str](header.pop("__metadata__"))
        body = memoryview(blob)[8 + length :]
        arrays = {key: _view(body, spec) for key, spec in header.items()}
        expected = metadata.pop(_CHECKSUM, None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{name}: no Headrace table, or damaged ({error}); {_WAY_OUT}") from error
    if expected is not None and expected != (checksum := _checksum(body)):
        raise FormatError(f"{name}: damaged (CRC-32 {expected} expected, {checksum} found); {_WAY_OUT}")
    return arrays, metadata


def _checksum(body: bytes | memoryview) -> str:
    return f"{zlib.crc32(body):08x}"


def _view(body: memoryview, spec: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    start, stop = spec["data_offsets"]
    shape, dtype = spec["shape"], _DTYPES[spec["dtype"]]
    count = math.prod(shape)
    if stop - start != count * dtype.itemsize or stop > len(body):
        raise ValueError(f"array of {count} x {dtype} does not fit bytes {start}..{stop} of {len(body)}")
    array = np.frombuffer(body, dtype, count, start)
    return array if len(shape) == 1 else array.reshape(shape)
