"""Reads the lines of the text files that describe a corpus, also of packed ones (`.gz`, `.zst`)."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from headrace.errors import ConfigError, IntegrityError
from headrace.format.tars.unpacking import unpacked_stream
from headrace.format.typed_json import json_value
from headrace.sources.named_files import opened, readable

_PACKED = (".gz", ".zst")


def numbered_lines(file: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers from 1, without line breaks.

    Raises:
        ConfigError: the file cannot be read, is damaged, or is not valid UTF-8; the message names the file and line.
    """
    try:
        with opened(file) as raw:
            yield from _decoded(unpacked_stream(raw, file) if file.endswith(_PACKED) else raw, file)
    except IntegrityError as error:
        raise ConfigError(f"{file}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise readable(file, error) from error


def _decoded(stream: BinaryIO, file: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file}, line {number}: not valid UTF-8; convert the file to UTF-8") from error
        if text.strip():
            yield number, text


def json_lines(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file, with the numbers of their lines.

    Raises:
        ConfigError: as for `numbered_lines`, or a line is not a JSON object.
    """
    for number, line in numbered_lines(file):
        try:
            content = json_value(line)
        except ValueError as error:
            raise ConfigError(f"{file}, line {number}: not valid JSON: {error}") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{file}, line {number}: expected one JSON object per line")
        yield number, content
