"""A source that is opened when it is first needed: partitions that need no recording are built without it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

from headrace.sources.content_digests import DigestedFile
from headrace.sources.corpus_rows import CorpusRows
from headrace.sources.listing import FileStamp, Listing
from headrace.sources.rows_ahead import announce
from headrace.sources.sources import Corpus


@dataclass(frozen=True)
class LateSource:
    """A source that may not be there. Each method raises `ConfigError` if it cannot be opened.

    Attributes:
        opened: opens it.
    """

    opened: Callable[[], Corpus]

    @cached_property
    def _source(self) -> Corpus:
        return self.opened()

    @property
    def uri(self) -> str:
        """See `Source.uri`."""
        return self._source.uri

    def list(self) -> Iterator[Listing]:
        """See `Source.list`."""
        return self._source.list()

    def open(self, path: str, stamp: FileStamp) -> AbstractContextManager[BinaryIO]:
        """See `Source.open`."""
        return self._source.open(path, stamp)

    def open_digested(self, path: str, stamp: FileStamp) -> AbstractContextManager[DigestedFile]:
        """See `Source.open_digested`."""
        return self._source.open_digested(path, stamp)

    def will_open(self, recordings: Sequence[tuple[str, int]]) -> None:
        """See `ReadsAhead`."""
        announce(self._source, recordings)

    def rows(self) -> CorpusRows | None:
        """See `Corpus.rows`."""
        return self._source.rows()
