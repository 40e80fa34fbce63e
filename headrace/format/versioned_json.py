"""JSON files with a format version and a checksum: manifests, snapshots, marks and headers of catalogs.

The checksum is the CRC-32 of the whole file with zeros in place of its own eight digits. So a change of any bit is an
error, whichever field it is in.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

from headrace.errors import FormatError
from headrace.format.typed_json import json_value, shown

FORMAT_VERSION = 1
_CHECKSUM = "crc32"
_NO_CHECKSUM = "00000000"
WAY_OUT = "`headrace verify` says whether the stored file itself is damaged; if so, restore it from a copy"
"""Advice about a damaged file."""


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON object; equal content gives equal bytes."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def versioned_bytes(key: str, content: Mapping[str, Any]) -> bytes:
    """A JSON object with a format version and a checksum before its content; `versioned_json` parses it."""
    text = json_bytes({key: FORMAT_VERSION, _CHECKSUM: _NO_CHECKSUM, **content})
    return text.replace(_NO_CHECKSUM.encode(), b"%08x" % zlib.crc32(text), 1)


def versioned_json(blob: bytes, name: str, key: str, *, before: str = "") -> dict[str, Any]:
    """The content of a JSON object from `versioned_bytes`.

    Args:
        blob: the bytes of the file.
        name: its name, for messages.
        key: the name under which the object holds its format version, such as `headrace_manifest`.
        before: parse only the fields before this one; empty to parse all. The checksum covers all of them.

    Raises:
        FormatError: not such an object, of another format version, or changed since it was written.
    """
    kind = key.replace("_", " ")
    try:
        content = json_value(_head(blob, before) if before else blob)
        version, expected = content.pop(key), content.pop(_CHECKSUM, "none")
        found = b"%08x" % zlib.crc32(blob.replace(str(expected).encode(), _NO_CHECKSUM.encode(), 1))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FormatError(f"{name}: not a {kind} ({error}); {WAY_OUT}") from error
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{name}: format {shown(version)}, this version of headrace reads {FORMAT_VERSION}; upgrade headrace"
        )
    if expected != found.decode():
        raise FormatError(
            f"{name}: a damaged {kind}: CRC-32 {expected!s:.60} expected, {found.decode()} found; {WAY_OUT}"
        )
    return dict(content)


def _head(blob: bytes, before: str) -> bytes:
    """The object of the fields before one; each field of the file begins on a line of its own."""
    cut = blob.find(f',\n "{before}": '.encode())
    return blob if cut < 0 else blob[:cut] + b"\n}"
