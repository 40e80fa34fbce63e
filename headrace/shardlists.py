"""From what a user names to the list of shards that a WebDataset pipeline reads.

Owns the resolving: folders, outputs of ours at a snapshot, `sizes.json`, shell globs, brace patterns and lists of them
become single shards, each with its number of samples where that is known. It opens no shard.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from headrace.errors import ConfigError, HeadraceError, NotFoundError
from headrace.index import ShardIndex, index_name
from headrace.snapshots import NumberedSnapshot, read_snapshot, read_table
from headrace.storage import LocalStorage, Storage, open_storage
from headrace.streaming.checks import each, optional, path, text, whole
from headrace.streaming.shards.finding import FoundShards, expanded, find_shards, is_pattern
from headrace.streaming.shards.listing import is_web, listed_snapshots, way_out

Urls: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_FOREIGN_SCHEMES = ("pipe:", "hf:", "ais:", "htgs:")


@dataclass(frozen=True, slots=True)
class Shard:
    """One tar to read.

    Attributes:
        storage: where it is; None where `name` is a URL that only webdataset's own openers understand (`pipe:…`).
        name: its path in the storage.
        num_samples: what a snapshot or `sizes.json` promises; None when nothing does.
    """

    storage: Storage | None
    name: str
    num_samples: int | None = None

    @property
    def url(self) -> str:
        """Its whole name, for messages."""
        return self.name if self.storage is None else f"{self.storage.uri}/{self.name}"

    def counted(self) -> int | None:
        """Number of samples: as promised, else from the `.idx` beside the shard; None when neither is there."""
        if self.num_samples is not None or self.storage is None:
            return self.num_samples
        try:
            path = index_name(self.name)
            return len(ShardIndex.from_bytes(self.storage.read(path), path))
        except NotFoundError:
            return None


def resolve_shards(urls: Urls, *, split: str | None = None, snapshot: int | None = None) -> list[Shard]:
    """The shards that `urls` names, in order (of a folder or glob: sorted).

    Inside an output of ours only the shards of one snapshot count, since old ones lie beside new ones.

    Args:
        urls: a folder of tars or an output of ours, a `sizes.json`, a tar, a shell glob, a brace pattern, a URL of
            these, `pipe:` and what else webdataset opens itself; `::` between several in one string; or a list of all
            that.
        split: shards of this split alone.
        snapshot: an output of ours as this snapshot has it; the newest by default.

    Raises:
        NotFoundError: nothing matches, or a shard or snapshot that is named is not there.
        ConfigError: an argument is not allowed, there is no such split, a snapshot is asked for where there are none,
            or a folder or glob is on a web server that lists nothing.
    """
    single = [urls] if isinstance(urls, str | os.PathLike) else urls
    texts = each("urls", single, path, "a path or URL, or a list of them")
    named = list(chain.from_iterable(map(expanded, _separate(text)) for text in texts))
    if not named:
        raise ConfigError("no shards: the list of URLs is empty")
    optional(text)("split", split)
    optional(whole)("snapshot", snapshot)
    return list(chain.from_iterable(_resolve_one(url, split, snapshot) for url in named))


def _separate(url: str) -> list[str]:
    return [url] if url.startswith("pipe:") else [path("a part of urls", part) for part in url.split("::")]


def _resolve_one(url: str, split: str | None, snapshot: int | None) -> Iterator[Shard]:
    if url.startswith(_FOREIGN_SCHEMES) or (url.startswith("http") and "?" in url):
        yield Shard(None, url)
        return
    ours = None if is_pattern(url) else _our_folder(open_storage(url))
    if ours is not None:
        yield from _of_snapshot(ours, read_snapshot(ours, snapshot), split)
        return
    if snapshot is not None:
        raise ConfigError(f"{url}: snapshot={snapshot} asked for, but this is no shard folder of a Headrace output")
    found = find_shards(url, split)
    if not found.names:
        raise NotFoundError(_nothing(url, found.storage))
    counts = found.counts or _beside(found)
    for name, count in zip(found.names, counts, strict=True):
        yield Shard(found.storage, name, count)


def _our_folder(storage: Storage) -> Storage | None:
    """The shard folder of ours that is meant: the folder itself, or the audio of an output's root."""
    if listed_snapshots(storage):
        return storage
    audio = storage.at("audio")
    return audio if listed_snapshots(audio) else None


def _of_snapshot(storage: Storage, numbered: NumberedSnapshot, split: str | None) -> Iterator[Shard]:
    splits = numbered.snapshot.splits
    if split is not None and split not in splits:
        raise ConfigError(
            f"{storage.uri}: no split {split!r} in snapshot {numbered.number}; there are {sorted(splits)}"
        )
    table = read_table(storage, numbered.snapshot)
    for row in range(len(table))[table.rows_of(split)]:
        yield Shard(storage, table.name(row), int(table.num_samples[row]))


def _beside(found: FoundShards) -> list[int | None]:
    """Counts from the `sizes.json` in the shards' folders, None for shards that none names."""
    sizes: dict[str, dict[str, int]] = {}
    for folder in {name.rpartition("/")[0] for name in found.names}:
        sizes[folder] = _sizes(found.storage.at(folder) if folder else found.storage)
    parts = [name.rpartition("/")[::2] for name in found.names]
    return [sizes[folder].get(file) for folder, file in parts]


def _sizes(storage: Storage) -> dict[str, int]:
    try:
        listed = find_shards(f"{storage.uri}/sizes.json", None)
    except HeadraceError:
        return {}  # none there, or another tool's file of this name: then nothing is promised
    return dict(zip(listed.names, listed.counts or (), strict=True))


def _nothing(url: str, storage: Storage) -> str:
    """What to say when nothing matches."""
    if isinstance(storage, LocalStorage):
        if not storage.root.is_dir():
            return f"{url}: no shards, {storage.root} is not there (relative names start at {Path.cwd()})"
        there = sorted(path.name for path in storage.root.iterdir() if path.name[0] != ".")
        shown = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
        return f"{url}: no shards match; {storage.root} holds {shown or 'nothing'}"
    if is_web(storage):
        return f"{url}: no shards match in {storage.uri}; check the pattern, or {way_out(storage)}"
    return f"{url}: no shards match in {storage.uri}; check the pattern and the credentials"
