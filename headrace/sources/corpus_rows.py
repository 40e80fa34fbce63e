"""`CorpusRows`: the rows that a corpus itself has, and the files that they are read from."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headrace.sources.listing import FileStamp

_OWN = "own_"
_KEPT = 64


@dataclass(frozen=True, slots=True)
class CorpusRows:
    """The rows of a corpus, each a sample.

    A row has values of JSON by the names of columns: `path`, which the listing has too, perhaps
    `headrace.source_kinds.ROW_PLACE`, and any others. Which of them are the key, the span (seconds) and the channel,
    `SourceKind.columns` says. A row that the corpus itself skips is `LEFT_OUT`.

    Attributes:
        read: reads the rows, in the order of the corpus, as often as needed. Raises `ConfigError`, which names the file
            and the line.
        stamps: name of each file that is read for the rows → its stamp; None for one that is not there. Cheap: a
            sensor asks for it again and again.
    """

    read: Callable[[], Iterator[Mapping[str, Any]]]
    stamps: Callable[[], Mapping[str, FileStamp | None]]


LEFT_OUT: Mapping[str, Any] = MappingProxyType({})
"""A row that the corpus itself says to leave out: it is counted, and no reject."""


def own_columns(content: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """The columns of a row; a name that is taken gets `own_` before it, and so does such a name itself.

    So no value is lost, and a name becomes the same one in all rows.

    >>> own_columns({"path": "x", "own_path": "y", "text": "hello"}, ["path"])
    {'own_path': 'x', 'own_own_path': 'y', 'text': 'hello'}
    """
    befores = _befores(tuple(taken))
    return {befores.get(_bare(name), "") + name: value for name, value in content.items()}


@functools.lru_cache(maxsize=_KEPT)
def _befores(taken: tuple[str, ...]) -> dict[str, str]:
    """Name that is taken, without `own_` → what is put before it, so that the result is not taken."""
    found = {"headrace": _OWN}
    for name in sorted(taken, key=len):
        found[_bare(name)] = name.removesuffix(_bare(name)) + _OWN
    return found


def _bare(name: str) -> str:
    while name.startswith(_OWN):
        name = name.removeprefix(_OWN)
    return name
