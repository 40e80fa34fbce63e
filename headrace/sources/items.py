"""`ItemCorpus`: a corpus whose own tables name its recordings, which are files or byte ranges of files.

A kind of source says which items there are and where the bytes of each are (`Items`); listing, stamps and opening are
here. The path of an item has all that is needed to find its bytes again, so that a worker needs no table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice
from typing import Any, BinaryIO, NamedTuple, Protocol

from headrace.format.rejects import RejectReason
from headrace.sources.byte_ranges import open_content, open_made, open_range, range_stamp
from headrace.sources.content_digests import DigestedFile, read_digest
from headrace.sources.corpus_rows import CorpusRows
from headrace.sources.joined_channels import joined_channels, joined_size, joined_stamp
from headrace.sources.listing import FileStamp, Listing
from headrace.sources.name_index import SeenNames
from headrace.sources.named_files import stamp_of_file, stamps_of_files
from headrace.sources.rows_ahead import announce

_CHUNK_ITEMS = 1000


class Place(NamedTuple):
    """The bytes of a recording.

    Attributes:
        file: the file that has them.
        start: their first byte; None for the whole file.
        content: reads them from the file in some other way.
        more: files whose channels follow those of `file`: the bytes are a WAV of all of them.
    """

    file: str
    start: int | None = None
    content: Callable[[], bytes] | None = None
    more: tuple[str, ...] = ()


class Item(NamedTuple):
    """A recording that a corpus names.

    Attributes:
        path: its name in the listing; the paths of its rows are equal.
        file: the file that has its bytes.
        num_bytes: length of its range; None for the whole file.
        fault: why it cannot be used, as a sentence; empty if it can.
        code: the same in one word.
        more: files whose channels follow those of `file`.
    """

    path: str
    file: str = ""
    num_bytes: int | None = None
    fault: str = ""
    code: RejectReason = RejectReason.UNREADABLE
    more: tuple[str, ...] = ()


class Items(Protocol):
    """The interface to the content of a corpus, which a kind implements. Methods are called again, from any thread."""

    def items(self) -> Iterator[Item]:
        """All recordings, in any order; one that comes twice is listed once. Raises `ConfigError`."""

    def place(self, path: str, stamp: FileStamp) -> Place:
        """The place of the bytes of an item with this stamp. Raises `OSError` if the item is gone."""

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows, see `CorpusRows`."""

    def tables(self) -> Sequence[str]:
        """Files that `rows` reads, whether they are there or not."""


@dataclass(frozen=True, slots=True)
class ItemCorpus:
    """A `Corpus` of items.

    Attributes:
        uri: its place, as a user would write it.
        content: its items.
    """

    uri: str
    content: Items

    def list(self) -> Iterator[Listing]:
        """See `Source.list`."""
        items, seen, stamps = self.content.items(), SeenNames(), _LastStamp()
        while chunk := list(map(_with_text, islice(items, _CHUNK_ITEMS))):
            found = Listing()
            for item in compress(chunk, seen.add([item.path for item in chunk])):
                _add(found, item, stamps)
            yield found

    def open(self, path: str, stamp: FileStamp) -> AbstractContextManager[BinaryIO]:
        """See `Source.open`."""
        place = self.content.place(path, stamp)
        if place.more:
            files = (place.file, *place.more)
            return open_made(partial(joined_channels, files), partial(joined_stamp, files), stamp, path)
        if place.content is not None:
            return open_content(place.file, place.content, stamp, path)
        return open_range(place.file, place.start, stamp, path)

    def open_digested(self, path: str, stamp: FileStamp) -> AbstractContextManager[DigestedFile]:
        """See `Source.open_digested`."""
        return read_digest(self.open(path, stamp))

    def will_open(self, recordings: Sequence[tuple[str, int]]) -> None:
        """See `ReadsAhead`."""
        announce(self.content, recordings)

    def rows(self) -> CorpusRows:
        """See `Corpus.rows`."""
        return CorpusRows(
            lambda: map(_row_with_text, self.content.rows()), lambda: stamps_of_files(self.content.tables())
        )


def _with_text(item: Item) -> Item:
    """An item whose path is text; a lone surrogate, which JSON can have, is a fault."""
    if (path := as_text(item.path)) == item.path:
        return item
    fault = f"{path}: half of a surrogate pair, which is not a character"
    return Item(path, fault=fault, code=RejectReason.BAD_NAME)


def _row_with_text(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row; if its path is no text, the path alone, as its item has it."""
    path = row.get("path", "")
    return row if (shown := as_text(path)) == path else {"path": shown}


def as_text(path: str) -> str:
    """A path in which half of a surrogate pair, as JSON and names of members may have, is an escape."""
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode()


class _LastStamp:
    """Stamps of files; the last one is kept, because the items of a file follow each other."""

    def __init__(self) -> None:
        self._file = ""
        self._stamp: FileStamp | None = None

    def of(self, file: str) -> FileStamp | None:
        if file != self._file:
            self._file, self._stamp = file, stamp_of_file(file)
        return self._stamp


def _add(found: Listing, item: Item, stamps: _LastStamp) -> None:
    if item.more and not item.fault:
        item, stamp = _joined(item)
    else:
        stamp = None if item.fault else stamps.of(item.file)
    if stamp is None:
        fault = item.fault or f"{item.file}: there is no such file, or it is not a regular file"
        found.add(item.path, None, item.code.value, fault)
    elif item.num_bytes is None:
        found.add(item.path, stamp)
    else:
        found.add(item.path, range_stamp(stamp, item.num_bytes))


def _joined(item: Item) -> tuple[Item, FileStamp | None]:
    """An item of several files with its number of bytes, or with its fault; and the stamp of the files together."""
    files = (item.file, *item.more)
    try:
        return item._replace(num_bytes=joined_size(files)), joined_stamp(files)
    except OSError as error:
        return item._replace(fault=str(error)), None
