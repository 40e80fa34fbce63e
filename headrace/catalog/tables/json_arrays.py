"""Reads a file that is one JSON array as JSON Lines: an element becomes a line of a temporary file."""

import json
import re
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, cast

from headrace.errors import ConfigError
from headrace.stores.temporary_room import temporary_room

_HEAD_BYTES = 4096
_BLANK = re.compile(r"[ \t\r\n]*")
_BOM = b"\xef\xbb\xbf"


def array_as_lines(file: Path, name: str) -> AbstractContextManager[IO[bytes]] | None:
    """A temporary file with the elements of an array, one a line; None if the file is not an array.

    Args:
        file: a file of JSON.
        name: name of the table in error messages.

    Raises:
        ConfigError: the array is not valid JSON.
        UnicodeDecodeError: it is not UTF-8.
        StorageError: the temporary folder is full.
    """
    with file.open("rb") as opened:
        if not opened.read(_HEAD_BYTES).removeprefix(_BOM).lstrip().startswith(b"["):
            return None
    with temporary_room("a table"):
        lines = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - the caller closes it
        try:
            for element in _elements(file.read_text("utf-8-sig"), name):
                lines.write(element.replace("\r", " ").replace("\n", " ").encode() + b"\n")
            lines.flush()
        except BaseException:
            lines.close()
            raise
    return cast("AbstractContextManager[IO[bytes]]", lines)


def _elements(text: str, name: str) -> list[str]:
    """The text of each element of an array."""
    decoder, found = json.JSONDecoder(), []
    place = _next(text, _next(text, 0) + 1)
    try:
        while text[place : place + 1] != "]":
            end = decoder.raw_decode(text, place)[1]
            found.append(text[place:end])
            place = _next(text, end)
            if text[place : place + 1] == ",":
                place = _next(text, place + 1)
            elif text[place : place + 1] != "]":
                raise json.JSONDecodeError("expected , or ]", text, place)
        if _next(text, place + 1) < len(text):
            raise json.JSONDecodeError("text after the array", text, place + 1)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not a valid array of JSON: {error}") from error
    return found


def _next(text: str, place: int) -> int:
    """The next place that is not blank."""
    found = _BLANK.match(text, place)
    return place if found is None else found.end()
