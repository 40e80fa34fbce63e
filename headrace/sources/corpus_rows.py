"""`CorpusRows`: the rows that a corpus itself has, and the files that they are read from."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headrace.sources.listing import FileStamp


@dataclass(frozen=True, slots=True)
class CorpusRows:
    """The rows of a corpus, each a sample.

    A row has values of JSON by the names of columns: `path`, which the listing has too, `id` if the corpus has names
    for its samples, `start` and `end` or `duration` (seconds) for a span, and any others; and perhaps `ROW_PLACE`. A
    row that the corpus itself skips is `LEFT_OUT`.

    Attributes:
        read: reads the rows, in the order of the corpus, as often as needed. Raises `ConfigError`, which names the file
            and the line.
        stamps: name of each file that is read for the rows → its stamp; None for one that is not there. Cheap: a
            sensor asks for it again and again.
    """

    read: Callable[[], Iterator[Mapping[str, Any]]]
    stamps: Callable[[], Mapping[str, FileStamp | None]]


ROW_PLACE = "\0place"
"""Name under which a row may say where it is, for messages: `line 7 of FILE`. It is not a column. A row without it is
named by its path and id."""

LEFT_OUT: Mapping[str, Any] = MappingProxyType({})
"""A row that the corpus itself says to leave out: it is counted, and no reject."""


def own_columns(content: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """The columns of a row; one with a name that is taken gets `own_` before it, so that no value is lost.

    >>> own_columns({"path": "x", "text": "hello"}, ["path"])
    {'own_path': 'x', 'text': 'hello'}
    """
    return {f"own_{name}" if name in taken or name == "headrace" else name: value for name, value in content.items()}
