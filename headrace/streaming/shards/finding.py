"""Plain WebDatasets: finding their shards by what a user names.

Owns the forms that a user may name one by: a folder, a `sizes.json`, a shell glob or a brace pattern. A glob or folder
inside an output of ours is filtered by its newest snapshot, or by the one that a saved state names, because old and new
shards share it. No shard is opened.
"""

import contextlib
import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from braceexpand import braceexpand

from headrace.errors import ConfigError, HeadraceError, NotFoundError
from headrace.sizes import parse_sizes
from headrace.snapshots import read_snapshot, read_table
from headrace.storage import Entry, LocalStorage, Storage, Transfer, open_storage
from headrace.streaming.shards.listing import UnlistedError, is_web, listed_snapshots, listing, way_out
from headrace.streaming.shards.unpacking import ZIP_SUFFIXES

TAR_SUFFIXES = (".tar", *ZIP_SUFFIXES)
_PATTERN = re.compile(r"[*?\[{]")


def expanded(remote: str) -> str:
    """With `~` as the home folder, as a shell has it; URLs stay as they are."""
    return remote if "://" in remote else os.path.expanduser(remote)  # noqa: PTH111 - a Path drops a slash at the end


def absolute(remote: str) -> str:
    """As seen from the root, `~` expanded, so that the name holds wherever the process goes; URLs stay as they are."""
    remote = expanded(remote)
    has_scheme = len(urlsplit(remote).scheme) > 1
    return remote if has_scheme or os.path.isabs(remote) else os.path.join(os.getcwd(), remote)  # noqa: PTH109, PTH117, PTH118 - as above


def is_pattern(remote: str) -> bool:
    """Whether a remote names files rather than a folder; a folder that is there may hold any character in its name."""
    if _is_local_folder(remote):
        return False
    return bool(_PATTERN.search(remote)) or remote.endswith((".json", *TAR_SUFFIXES))


def expand_braces(pattern: str) -> list[str]:
    """Every name that a brace pattern stands for, in its order; where braces do not pair up, all of it is a plain name.

    >>> expand_braces("{train,test}-{08..10}.tar")[:4]
    ['train-08.tar', 'train-09.tar', 'train-10.tar', 'test-08.tar']
    """
    try:
        return list(braceexpand(pattern, escape=False))
    except ValueError:  # a brace without its other
        return [pattern]


@dataclass(frozen=True, slots=True)
class FoundShards:
    """The shards that a folder, `sizes.json` or pattern names.

    Attributes:
        storage: where they are.
        names: their paths in it, in order; none when nothing matches.
        counts: samples of each where a `sizes.json` was named, else None.
        snapshot: number of the snapshot that they were filtered by; None outside of our outputs, and across several.
    """

    storage: Storage
    names: tuple[str, ...]
    counts: tuple[int, ...] | None = None
    snapshot: int | None = None


def find_shards(
    remote: str, split: str | None, transfer: Transfer | None = None, snapshot: int | None = None
) -> FoundShards:
    """The shards of a plain WebDataset, unopened; inside an output, those that its newest snapshot names.

    Args:
        remote: what names them.
        split: None for all.
        transfer: time limits of stores.
        snapshot: number of the output's snapshot to take instead of the newest.

    Raises:
        ConfigError: `split` fits none of them, a folder or glob is on a web server that lists nothing, or a `snapshot`
            is asked of shards that are not inside one output.
        NotFoundError: one that is named in full, the `sizes.json` or the snapshot is not there.
        FormatError: the `sizes.json` is none.
    """
    remote = expanded(remote)
    if not is_pattern(remote):
        storage, names = _in_folder(open_storage(remote, transfer), split)
        return FoundShards(storage, tuple(names))
    folder, _, last = _split_pattern(remote)
    storage = open_storage(folder, transfer)
    if remote.endswith(".json"):
        sizes, number = _of_snapshot(storage, parse_sizes(storage.read(last), f"{storage.uri}/{last}"), snapshot)
        there, counts = list(sizes), sizes
    else:
        names = [name for pattern in expand_braces(last) for name in _matching(storage, pattern)]
        (there, number), counts = _current(storage, list(dict.fromkeys(names)), snapshot), None
    if there and snapshot != number and snapshot is not None:
        raise ConfigError(f"{remote}: snapshot={snapshot} needs a folder with snapshots, not a plain WebDataset")
    chosen = tuple(_of_split(there, split))
    return FoundShards(storage, chosen, None if counts is None else tuple(counts[name] for name in chosen), number)


def _split_pattern(remote: str) -> tuple[str, str, str]:
    """The folder before the first special character, or a longer one that is there, and the rest."""
    match = _PATTERN.search(remote)
    slashes = [slash.start() for slash in re.finditer("/", remote) if match and slash.start() > match.start()]
    for at in reversed(slashes):
        if _is_local_folder(remote[:at]):
            return remote[:at], "/", remote[at + 1 :]
    plain = remote[: match.start()] if match else remote
    folder, slash, _ = plain.rpartition("/")
    return folder or ("/" if slash else "."), slash, remote[len(folder) + len(slash) :]


def _is_local_folder(name: str) -> bool:
    return "://" not in name and Path(name).is_dir()


def _matching(storage: Storage, pattern: str) -> Iterator[str]:
    """Names that match a shell glob, sorted; `*` stops at `/`. A plain name must be there."""
    if not _PATTERN.search(pattern):
        if not storage.exists(pattern):
            raise NotFoundError(f"{storage.uri}/{pattern}: the shard is not there")
        yield pattern
        return
    prefix = pattern[: _PATTERN.search(pattern).start()]  # type: ignore[union-attr]
    with listing(storage):
        there = list(_tars(storage.list(prefix)))
    for name in there:
        if name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern):
            yield name


def _in_folder(storage: Storage, split: str | None) -> tuple[Storage, list[str]]:
    """The shards directly in a folder, or in its subfolder `split` as MosaicML's layout has it."""
    with listing(storage):
        names = [name for name in _tars(storage.list()) if "/" not in name]
    if split is not None and not names:
        below = storage.at(split)
        found = [name for name in _tars(below.list()) if "/" not in name]
        return (below, found) if found else (storage, [])
    return storage, _of_split(names, split)


def _tars(entries: Iterable[Entry]) -> Iterator[str]:
    return (entry.path for entry in entries if entry.path.endswith(TAR_SUFFIXES))


def _of_split(names: Sequence[str], split: str | None) -> list[str]:
    """Names whose file begins with the split."""
    if split is None:
        return list(names)
    found = [name for name in names if re.match(rf"(latent_)?{re.escape(split)}([._-]|\d|$)", name.rpartition("/")[2])]
    if names and not found:
        raise ConfigError(f"split={split!r}: none of {len(names)} shards begins with it (the first is {names[0]})")
    return found


def _current(storage: Storage, names: list[str], snapshot: int | None) -> tuple[list[str], int | None]:
    """Without the shards that a snapshot of their folder, an output of ours, does not name; and the snapshot's number.

    A folder on a web server that lists nothing is taken for none of ours: what names its shards, names them all.
    """
    folders = {name.rpartition("/")[0] for name in names}
    ours = {
        folder: (below, read_snapshot(below, snapshot))
        for folder in folders
        if _is_ours(below := storage.at(folder) if folder else storage)
    }
    kept = {folder: frozenset(read_table(below, found.snapshot).names()) for folder, (below, found) in ours.items()}
    parts = [(name, *name.rpartition("/")[::2]) for name in names]
    current = [name for name, folder, file in parts if folder not in kept or file in kept[folder]]
    numbers = [found.number for _, found in ours.values()]
    return current, numbers[0] if len(numbers) == 1 else None


def _of_snapshot(storage: Storage, sizes: dict[str, int], snapshot: int | None) -> tuple[dict[str, int], int | None]:
    """What a `sizes.json` lists, and the number of the snapshot that this is: the newest, where it is the list of one.

    Instead of such a list, that of another `snapshot` may be asked for.
    """
    newest = _newest_if_listed(storage, sizes)
    if newest is None or snapshot in {None, newest}:
        return sizes, newest
    table = read_table(storage, read_snapshot(storage, snapshot).snapshot)
    return dict(zip(table.names(), table.num_samples.tolist(), strict=True)), snapshot


def _newest_if_listed(storage: Storage, sizes: Mapping[str, int]) -> int | None:
    """Number of the newest snapshot of a folder if the sizes are those of its shards."""
    with contextlib.suppress(HeadraceError):  # who may not list the folder is told all by the file
        if _is_ours(storage):
            newest = read_snapshot(storage)
            return newest.number if sizes.keys() == set(read_table(storage, newest.snapshot).names()) else None
    return None


def _is_ours(storage: Storage) -> bool:
    try:
        return bool(listed_snapshots(storage))
    except UnlistedError:
        return False


def hint(storage: Storage) -> str:
    """What may be wrong with the name of a folder in which there are no shards."""
    if isinstance(storage, LocalStorage) and storage.root.is_file():
        return f"{storage.root} is a file, and neither a tar nor a sizes.json"
    if isinstance(storage, LocalStorage) and not storage.root.is_dir():
        beside = storage.root.parent / "audio"
        other = f"; did you mean {beside}, with split=…?" if beside.is_dir() else ""
        return f"the folder {storage.root} is not there (relative names start at {Path.cwd()}){other}"
    audio = storage.at("audio")
    if _is_ours(audio) or (isinstance(audio, LocalStorage) and audio.root.is_dir()):
        return f"name its folder of shards: {audio.uri}"
    if isinstance(storage, LocalStorage) and not any(storage.root.iterdir()):
        return f"the folder {storage.root} is empty: build the data set, or check the path"
    return way_out(storage) if is_web(storage) else "build the data set, or check the path"


def has_shards(storage: Storage) -> bool:
    """Whether tars lie directly in a folder."""
    return bool(_in_folder(storage, None)[1])
