"""Makes the list of shards that a WebDataset pipeline reads, from one name or a list of names.

Each shard comes with its number of samples where a snapshot or a `sizes.json` gives it. No shard is opened.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from headrace.arguments import each, optional, path, text, whole
from headrace.errors import ConfigError, HeadraceError, NotFoundError, StoreUnavailableError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import IndexFile, find_index, is_outdated
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.format.snapshots.tar_lists import folder_of, is_current
from headrace.locate.locating import Location, locate
from headrace.locate.outputs import table_of_tars
from headrace.locate.tars import PlainTars, tars_of_list
from headrace.signed_urls import check_no_password, unsigned
from headrace.stores.storage import Storage, Transfer

Urls: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_FOREIGN_SCHEMES = ("pipe:", "ais:", "htgs:")


@dataclass(frozen=True, slots=True)
class LocatedShard:
    """One tar to read.

    Attributes:
        storage: its folder; None where `name` is a URL that only webdataset's own openers understand (`pipe:…`).
        name: its path in the storage.
        num_samples: number of samples by a snapshot or `sizes.json`; None where neither gives it.
        is_built: whether a snapshot of an output of Headrace names it.
        fits: for a file of columns, the audio shard whose samples its rows belong to, if that is known.
        indexes: the folder that `headrace index --columns` or `--into` wrote the tar's index into; None for other tars.
    """

    storage: Storage | None
    name: str
    num_samples: int | None = None
    is_built: bool = False
    fits: "LocatedShard | None" = None
    indexes: Storage | None = None

    @property
    def url(self) -> str:
        """Its whole name, for messages."""
        return unsigned(self.name) if self.storage is None else f"{self.storage.uri}/{self.name}"

    def counted(self) -> int | None:
        """Number of samples: `num_samples`, or that of its index; None where there is neither."""
        if self.num_samples is not None:
            return self.num_samples
        index = self.index()
        return None if index is None else len(index)

    def current_index(self) -> ShardIndex | None:
        """The `index`; None for a local tar that was written again after its index."""
        if self.storage is None or (found := self._found()) is None:
            return None
        if self.indexes is not None:
            with suppress(NotFoundError):  # opening the tar says so
                return found.index if is_current(self.storage, self.name, found.index) else None
            return None
        return None if is_outdated(self.storage, self.name, found) else found.index

    def index(self) -> ShardIndex | None:
        """Headrace's index of the shard; None where there is no index.

        Raises:
            FormatError: the index is damaged.
        """
        found = self._found()
        return None if found is None else found.index

    def _found(self) -> IndexFile | None:
        folder = self.indexes or self.storage
        return None if folder is None else find_index(folder, self.name)


def locate_shards(urls: Urls, *, split: str | None = None, snapshot: int | None = None) -> list[LocatedShard]:
    """The shards that `urls` names, in the order of the names; those of a folder or glob are sorted.

    Of an output of Headrace only the shards of one snapshot are read, because shards of old snapshots share its folder.

    Args:
        urls: a folder of tars or an output, a `sizes.json`, a text list, a tar, a glob, a brace pattern, a URL of any
            of these, or a URL such as `pipe:…` that webdataset opens itself; several in one string with `::` between
            them; or a list.
        split: only shards of this split.
        snapshot: number of the snapshot of an output; None for the newest.

    Raises:
        NotFoundError: nothing matches, or a shard or snapshot that is named is not there.
        ConfigError: an argument is not valid, there is no such split, a snapshot is asked of tars without snapshots, or
            a folder or glob is on a web server that lists nothing.
    """
    single = [urls] if isinstance(urls, str | os.PathLike) else urls
    names = each("urls", single, path, "a path or URL, or a list of them")
    named = list(chain.from_iterable(map(_separate, names)))
    if not named:
        raise ConfigError("no shards: the list of URLs is empty")
    optional(text)("split", split)
    optional(whole)("snapshot", snapshot)
    transfer = Transfer()
    return list(chain.from_iterable(_shards_of_one(url, split, snapshot, transfer) for url in named))


def shards_of(
    located: Location, split: str | None = None, snapshot: int | None = None, transfer: Transfer | None = None
) -> list[LocatedShard]:
    """The shards of what was located: those of a snapshot, or the tars, with counts from the `sizes.json` beside them.

    Raises:
        NotFoundError: the snapshot is not there, or this is an output without audio.
        ConfigError: the snapshot has no such split.
    """
    if (tars := located.tars) is not None:
        counts = tars.counts or _counts_beside(tars)
        indexes = None if tars.indexed is None else folder_of(tars.indexed.storage, transfer)
        return [
            LocatedShard(tars.storage, name, count, indexes=indexes)
            for name, count in zip(tars.names, counts, strict=True)
        ]
    folder = located.one_folder("reading")
    return list(_of_snapshot(folder.storage, folder.snapshot(snapshot), split))


def _separate(url: str) -> list[str]:
    return [url] if url.startswith("pipe:") else [path("a part of urls", part) for part in url.split("::")]


def _shards_of_one(url: str, split: str | None, snapshot: int | None, transfer: Transfer) -> list[LocatedShard]:
    check_no_password(url)
    if url.startswith(_FOREIGN_SCHEMES) or (url.startswith("http") and "?" in url):
        return [LocatedShard(None, url)]
    located = locate(url, split=split, snapshot=snapshot, transfer=transfer)
    located.check_built()
    return shards_of(located, split, snapshot, transfer)


def _of_snapshot(storage: Storage, numbered: NumberedSnapshot, split: str | None) -> Iterator[LocatedShard]:
    table, rows = table_of_tars(storage, numbered, split)
    for row in range(len(table))[rows]:
        yield LocatedShard(storage, table.name(row), int(table.num_samples[row]), is_built=True)


def _counts_beside(tars: PlainTars) -> list[int | None]:
    """Counts from the `sizes.json` in the folders of the tars, None for tars that are not listed."""
    sizes: dict[str, dict[str, int]] = {}
    for folder in {name.rpartition("/")[0] for name in tars.names}:
        sizes[folder] = _sizes_in(tars.storage.at(folder) if folder else tars.storage)
    parts = [name.rpartition("/")[::2] for name in tars.names]
    return [sizes[folder].get(file) for folder, file in parts]


def _sizes_in(storage: Storage) -> dict[str, int]:
    """Counts by the `sizes.json` of a folder; empty where it is missing or another tool's file."""
    try:
        return tars_of_list(storage, "sizes.json")[0]
    except StoreUnavailableError:
        raise
    except HeadraceError:
        return {}
