"""Parses the JSON of samples."""

import json
from collections.abc import Sequence
from typing import Any

from headrace.errors import FormatError

_BYTE_ORDER_MARK = "\ufeff"
_JSON = json.JSONDecoder()  # json.loads would guess encodings


def metadata_of(blob: bytes | memoryview) -> dict[str, Any]:
    """The content of a sample's `.json`; see `parsed`. Raises `FormatError` if it is not valid JSON."""
    try:
        return parsed(blob)
    except ValueError as error:
        raise FormatError(f"its .json is not valid JSON ({error}): write it again") from error


def parsed(blob: bytes | bytearray | memoryview) -> dict[str, Any]:
    """A JSON object from its bytes; another JSON value as `{"json": value}`. Raises `ValueError` if it is not JSON."""
    text = str(blob, "utf-8").removeprefix(_BYTE_ORDER_MARK)
    try:
        try:
            found, end = _JSON.raw_decode(text)
        except json.JSONDecodeError:
            end = -1
        if end != len(text):
            found = _JSON.decode(text)  # spaces around the value, or an error
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error
    return found if isinstance(found, dict) else {"json": found}


def parsed_together(blob: bytes | bytearray, ends: Sequence[int]) -> list[dict[str, Any]]:
    """`parsed` for many texts; `{}` for a text without bytes.

    Args:
        blob: the texts, end to end.
        ends: where each text ends.

    Raises:
        ValueError: a text is not JSON.
    """
    text = blob.decode("ascii") if blob.isascii() else ""  # in ASCII a byte is a character: no text is copied again
    found: list[dict[str, Any]] = []
    start = 0
    for end in ends:
        value = _object_at(text, start, end) if text else None
        if value is None:
            value = parsed(blob[start:end]) if end > start else {}
        found.append(value)
        start = end
    return found


def _object_at(text: str, start: int, end: int) -> dict[str, Any] | None:
    """The object in `text[start:end]`; None if that is anything else than exactly one object."""
    try:
        value, stop = _JSON.raw_decode(text, start)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if stop == end and isinstance(value, dict) else None
