"""Forges files with valid checksums: values of real files are replaced, removed, doubled and swapped."""

import copy
import json
import zlib

import numpy as np

from headrace.format import tables

NESTED = json.loads("[" * 900 + "]" * 900)
ODD_VALUES = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        7,
        255,
        256,
        1 << 31,
        3_000_000_000,
        10**13,
        (1 << 63) - 1,
        1 << 63,
        1 << 64,
        10**40,
    ),
    *(0.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "-1", "9" * 30, "nan", "../x", "/etc/passwd", "a/b", "\0"),
    *("\udcff", "\ud800", "é" * 300, "train", "train-0000", "\n", [], [1], [[]], {}, {"a": 1}, {"": None}, NESTED),
)


def forged(value, chance, depth=0):
    """A JSON value with one change somewhere inside."""
    if (depth and chance.random() < 0.25) or not isinstance(value, dict | list) or not value:
        return chance.choice(ODD_VALUES)
    changed = copy.copy(value)
    places = list(value) if isinstance(value, dict) else range(len(value))
    place, other = chance.choice(places), chance.choice(places)
    match chance.choice(["inside"] * 6 + ["without", "swapped", "more"]):
        case "inside":
            changed[place] = forged(value[place], chance, depth + 1)
        case "without":
            del changed[place]
        case "swapped":
            changed[place], changed[other] = value[other], value[place]
        case "more" if isinstance(value, dict):
            changed[chance.choice(["", "x", "é", "../x"])] = value[place]
        case _:
            changed.insert(place, value[other])
    return changed


def forged_json(blob, chance):
    """A JSON file of ours with a change and the checksum of the new bytes."""
    if chance.random() < 0.03:
        return with_crc(b'{"a":' + b"[" * 100_000)
    return with_crc(json.dumps(forged(json.loads(blob), chance), indent=1).encode())


def with_crc(blob):
    """The bytes with the checksum that `versioned_json` computes."""
    start = blob.find(b'"crc32": "') + 10
    if start < 10:
        return blob
    blob = blob[:start] + b"0" * 8 + blob[start + 8 :]
    return blob[:start] + b"%08x" % zlib.crc32(blob) + blob[start + 8 :]


def forged_table(blob, chance):
    """A file of arrays with a change of an array, of a text beside them or of the header, and a valid checksum."""
    arrays, metadata = tables.unpack(blob, "x")
    way = chance.choice(["header", "header", "text", "array", "array", "array"])
    if way == "header":
        return _with_header(blob, chance)
    if way == "array" and arrays:
        name = chance.choice(sorted(arrays))
        arrays = arrays | {name: _forged_array(arrays[name], chance)}
        if chance.random() < 0.1:
            del arrays[name]
    elif metadata:
        name = chance.choice(sorted(metadata))
        metadata = metadata | {name: _forged_text(metadata[name], chance)}
    return tables.pack(arrays, metadata)


def _forged_text(text, chance):
    try:
        return json.dumps(forged(json.loads(text), chance))
    except ValueError:
        odd = [
            value for value in ODD_VALUES if isinstance(value, str) and "\ud800" not in value and "\udcff" not in value
        ]
        return chance.choice([*odd, text + "\n", "\n", "[" * 100_000])


def _forged_array(array, chance):
    match chance.choice(["value", "value", "value", "cut", "longer", "dtype", "shape", "empty"]):
        case "value" if array.size:
            changed = array.copy()
            info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
            changed.flat[chance.randrange(array.size)] = chance.choice([info.min, info.max, 0, 1, 5])
            return changed
        case "cut":
            return array[: len(array) // 2]
        case "longer":
            return np.concatenate([array, array[:1]])
        case "dtype":
            return array.astype(chance.choice([np.uint8, np.int16, np.int32, np.int64, np.float64]))
        case "shape" if array.size:
            return chance.choice([array.reshape(-1, 1), array.reshape(1, -1), array.reshape(-1)[:1].reshape(())])
        case _:
            return array[:0]


def _with_header(blob, chance):
    """Another shape, dtype or place in the header of the file, or nonsense in place of it."""
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    changed = {"__metadata__": header.pop("__metadata__"), **forged(header, chance)} if header else header
    text = json.dumps(changed, separators=(",", ":")).encode()
    if chance.random() < 0.05:
        text = text[:-1] + b',"x":' + b"[" * 100_000
    made = bytearray(len(text).to_bytes(8, "little") + text + blob[8 + length :])
    made[34:42] = b"0" * 8
    made[34:42] = b"%08x" % zlib.crc32(made)
    return bytes(made)
