"""Finds the tars of a plain WebDataset: those of a folder, or those that a pattern, `sizes.json` or list names.

A glob or `sizes.json` inside an output of Headrace gives only the tars of one snapshot, because the tars of old and new
snapshots share a folder. No tar is opened.
"""

import fnmatch
import itertools
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import (
    ConfigError,
    FormatError,
    HeadraceError,
    NoShardsError,
    NotAFileError,
    NotFoundError,
    StoreUnavailableError,
    UnsafePathError,
)
from headrace.format.other_formats import may_be_texts, possible_texts, texts_beside
from headrace.format.sizes import ENERGON_SIZES, parse_sizes
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.format.snapshots.tar_lists import TARS, read_tar_list
from headrace.format.tars.name_lists import below, common_folder, once, shown
from headrace.format.tars.tar_names import is_tar
from headrace.locate.listing import has_snapshots, is_web, listed_snapshots, listing
from headrace.locate.names import LISTS, SPECIAL, expand_braces, split_pattern
from headrace.locate.outputs import ShardFolder
from headrace.ordered import TaskThreads, map_in_order
from headrace.signed_urls import is_signed, unsigned
from headrace.stores.contents import checked_path
from headrace.stores.refetch import read_sound
from headrace.stores.regular_files import oddity
from headrace.stores.storage import LocalStorage, ObjectStorage, Storage, Transfer, open_storage, pinned

_NAMES_AT_ONCE = 32
_LONGEST_NAME_BYTES = 255  # of a local file
_BUCKETS = ("s3://", "gs://", "az://", "abfs://", "hf://")


@dataclass(frozen=True, slots=True)
class PlainTars:
    """The tars that a folder, glob, brace pattern or `sizes.json` names.

    Attributes:
        storage: the folder that `names` are relative to.
        names: paths of the tars, in order; empty when nothing matches.
        counts: number of samples of each tar where a `sizes.json` was named, else None.
        snapshot: number of the snapshot that the tars belong to; None outside of outputs of Headrace, and where they
            belong to several outputs.
        indexed: the folder `tars/` with the snapshots of `headrace index --columns`, where that was looked for.
    """

    storage: Storage
    names: tuple[str, ...]
    counts: tuple[int, ...] | None = None
    snapshot: int | None = None
    indexed: ShardFolder | None = None


def tars_of_folder(storage: Storage, split: str | None) -> PlainTars:
    """The tars directly in a folder, sorted by name.

    With a split: those whose name begins with it; or, where the folder holds no tars, those of the subfolder of that
    name, as MosaicML Streaming lays out splits.

    Raises:
        ConfigError: no tar belongs to the split, or the folder is on a web server that lists nothing.
        NotAFileError: a tar's name leads to a broken link, a folder, a pipe or a device.
    """
    odd = set[str]()
    names = _directly_in(storage, odd)
    if split is not None and not names:
        below = storage.at(split)
        found = _directly_in(below, odd)
        return PlainTars(below, _checked(below, found, odd)) if found else PlainTars(storage, ())
    return PlainTars(storage, _checked(storage, _of_split(names, split), odd))


def indexed_folder(storage: Storage) -> ShardFolder | None:
    """The snapshots that `headrace index` wrote into a folder with `--columns` or `--into`."""
    numbers = listed_snapshots(storage.at(TARS))
    return ShardFolder(TARS, storage.at(TARS), tuple(numbers)) if numbers else None


def tars_of_index(folder: ShardFolder, split: str | None, transfer: Transfer | None) -> PlainTars:
    """The tars of the newest of these snapshots, wherever they are.

    Raises:
        ConfigError: no tar belongs to the split.
        FormatError: the snapshot is damaged.
    """
    snapshot = folder.snapshot().snapshot
    table, listed = read_table(folder.storage, snapshot), read_tar_list(folder.storage, snapshot)
    counts = dict(zip(listed.of_rows(table), table.num_samples.tolist(), strict=True))
    names = _of_split(sorted(counts), split)
    storage = listed.storage(folder.storage, transfer)
    return PlainTars(storage, tuple(names), tuple(counts[name] for name in names), None, folder)


def tars_of_pattern(
    pattern: str,
    split: str | None,
    transfer: Transfer | None = None,
    snapshot: int | None = None,
    revision: str | None = None,
) -> PlainTars:
    """The tars that a glob, brace pattern, file name, `sizes.json` or text list names.

    Args:
        pattern: the name.
        split: only tars whose file name begins with it; None for all.
        transfer: time limits of stores.
        snapshot: number of the snapshot to take where the pattern is inside an output; None for the newest.
        revision: see `locate`.

    Raises:
        ConfigError: no tar belongs to the split, or a glob is on a web server that lists nothing.
        NotFoundError: a tar that is named in full, the `sizes.json` or the snapshot is not there.
        NotAFileError: a tar's name leads to a broken link, a folder, a pipe or a device.
        FormatError: the `sizes.json` or the text list is not valid.
    """
    folder, last = split_pattern(pattern)
    if pattern.endswith(f"/{ENERGON_SIZES}"):
        folder, last = pattern.removesuffix(f"/{ENERGON_SIZES}"), ENERGON_SIZES
    storage = open_storage(folder, transfer)
    if pattern.endswith(".json"):
        sizes, number = tars_of_list(storage, last, snapshot)
        storage, sizes = _placed(storage, sizes, pattern)
        chosen = _of_split(list(sizes), split)  # not looked up one by one: a missing tar is reported when it is opened
        return PlainTars(storage, tuple(chosen), tuple(sizes[name] for name in chosen), number)
    if pattern.endswith(LISTS):
        storage, listed = tars_of_text(storage, last, pattern, transfer, revision)
        return PlainTars(storage, tuple(_of_split(listed, split)))
    odd = set[str]()
    parts = [last] if "{" in last and _is_spelled_so(storage, last) else expand_braces(last)
    with TaskThreads(_NAMES_AT_ONCE, "names") as pool:  # each of them may be a request
        found = map_in_order(pool, lambda part: list(_matching(storage, part, odd)), parts, window=2 * _NAMES_AT_ONCE)
        names = list(itertools.chain.from_iterable(found))
    _warn_of_texts(storage, _texts_of(storage, names[:1]))
    there, number = _in_snapshots(storage, list(dict.fromkeys(names)), snapshot)
    return PlainTars(storage, _checked(storage, _of_split(there, split), odd), None, number)


def tar_of_signed_url(url: str, split: str | None, transfer: Transfer | None = None) -> PlainTars:
    """The tar that a URL with a query names. Its folder holds nothing else: a signature is of one file.

    Raises:
        ConfigError: it is no tar, or does not belong to the split.
    """
    name = unsigned(url)
    if not is_tar(name):
        raise ConfigError(
            f"{name}?…: a URL with a query, as a signed one, names one file, and this one is no tar: pass the URL of a "
            "tar, several as streams=[Stream(remote=…), …], or name the bucket (s3://…) with credentials in the "
            "environment; headrace.webdataset_loader reads a URL of any name"
        )
    storage = ObjectStorage.of_signed(url, transfer)
    return PlainTars(storage, tuple(_of_split([name.rpartition("/")[2]], split)))


def tars_of_list(storage: Storage, name: str, snapshot: int | None = None) -> tuple[dict[str, int], int | None]:
    """The tars and sample counts of a `sizes.json`, and the number of the snapshot whose list it is.

    Where it lists exactly the shards of the folder's newest snapshot, another `snapshot` may be asked for instead, and
    counts are those of the snapshot, which has checksums.

    Raises:
        NotFoundError: the list or the snapshot is not there.
        FormatError: the list is not valid.
    """
    sizes = read_sound(storage, name, parse_sizes)
    newest = _newest_if_listed(storage, sizes)
    if newest is None:
        return sizes, None
    number, table = newest
    if snapshot not in {None, number}:
        number, table = snapshot, read_table(storage, read_snapshot(storage, snapshot).snapshot)
    return dict(zip(table.names(), table.num_samples.tolist(), strict=True)), number


def tars_of_text(
    storage: Storage, name: str, named: str, transfer: Transfer | None, revision: str | None = None
) -> tuple[Storage, list[str]]:
    """The tars of a text file, which has a path or a URL in each line, and the folder that holds all of them.

    Paths are relative to the folder of the file. Empty lines and lines that begin with `#` are left out.

    Raises:
        NotFoundError: the file is not there.
        NoShardsError: a line names no tar, or there are none.
        FormatError: the URLs are of several stores.
    """
    lines = (line.strip() for line in storage.read(name).decode("utf-8-sig", "replace").splitlines())
    folder = storage.root if isinstance(storage, LocalStorage) else None
    names = once(named, [below(folder, line) for line in lines if line and line[0] != "#"])
    if not names or not all(map(is_tar, names)):
        odd = next((name for name in names if not is_tar(name)), "")
        what = "a URL with a query, as a signed one" if is_signed(odd) else "which is no tar"
        raise NoShardsError(
            f"{named}: it is a file, and neither a tar nor a sizes.json, nor a list of tars: it lists "
            f"{f'{unsigned(odd)!r}, {what}' if odd else 'nothing'}. A list has the path or the URL of a tar in each "
            "line; pass signed URLs as streams=[Stream(remote=…), …]"
        )
    if not all("://" in name for name in names):
        storage, sizes = _placed(storage, dict.fromkeys(names, 0), named)
        return storage, list(sizes)
    root, paths = common_folder(names)
    if root is None:
        raise FormatError(f"{named}: lists tars of several stores: name each by streams=[Stream(remote=…), …]")
    return open_storage(pinned(root, transfer, revision), transfer), paths


def tars_of_names(name: str, split: str | None, transfer: Transfer | None) -> PlainTars:
    """The tars of a list of names (`name_of_tars`), in its order.

    Raises:
        NotFoundError: a local tar is not there.
        ConfigError: no tar belongs to the split.
        NotAFileError: a tar's name leads to a broken link, a folder, a pipe or a device.
    """
    root, *names = name.split("\n")
    storage = open_storage(root, transfer)
    if isinstance(storage, LocalStorage):
        names = once(shown(name), [found for one in names for found in _matching(storage, one, set())])
    return PlainTars(storage, tuple(_of_split(names, split)))


def is_bucket_folder(name: str, transfer: Transfer | None = None) -> bool:
    """Whether a name with the characters of a pattern is, as it is spelled, a folder of a bucket or a repository."""
    if not name.startswith(_BUCKETS) or name.endswith(".json") or is_tar(name):
        return False
    return next(iter(open_storage(name, transfer).list()), None) is not None


def _placed(storage: Storage, sizes: dict[str, int], named: str) -> tuple[Storage, dict[str, int]]:
    """The folder that holds all tars of a list, and their counts by path below it.

    A local list may name tars anywhere on this machine. One that was fetched may lead only below its own folder.

    Raises:
        FormatError: it leads elsewhere.
    """
    outside = next((name for name in sizes if not _is_below(name)), None)
    if outside is None:
        return storage, sizes
    if not isinstance(storage, LocalStorage) or "://" in outside or "\\" in outside or "\0" in outside:
        raise FormatError(f"{named}: lists {outside!r}, which is not below its folder; name the tars one by one")
    places = {os.path.normpath(storage.root.absolute() / name): count for name, count in sizes.items()}
    root = os.path.commonpath([os.path.dirname(place) for place in places])  # noqa: PTH120 - texts, as normpath gives
    return LocalStorage(Path(root)), {os.path.relpath(place, root): count for place, count in places.items()}


def _is_below(name: str) -> bool:
    try:
        return bool(checked_path(name))
    except UnsafePathError:
        return False


def has_name(storage: Storage, path: str) -> bool:
    """Whether there is an object of this name, or something else in its place, such as a broken link."""
    return storage.exists(path) or _oddity(storage, path) is not None


def _is_spelled_so(storage: Storage, pattern: str) -> bool:
    """Whether there is an object whose name has the characters of a pattern; a web server is not asked."""
    is_name = all(len(part.encode()) <= _LONGEST_NAME_BYTES for part in pattern.split("/"))
    return is_name and not is_web(storage) and storage.exists(pattern)


def _matching(storage: Storage, pattern: str, odd: set[str]) -> Iterator[str]:
    """Names that match a shell glob, sorted; `*` stops at `/`. A plain name must be there. For `odd` see `_tars`."""
    special = SPECIAL.search(pattern)
    listed = [] if special is None else _tars(storage, odd, pattern[: special.start()])[0]
    if special is None or pattern in listed or (not is_tar(pattern) and _is_spelled_so(storage, pattern)):
        if not storage.exists(pattern):
            if not has_name(storage, pattern):
                raise NotFoundError(f"{storage.uri}/{pattern}: the shard is not there")
            odd.add(pattern)
        yield pattern
        return
    for name in listed:
        if name.count("/") != pattern.count("/"):
            continue
        if fnmatch.fnmatchcase(name, pattern):
            yield name
        elif fnmatch.fnmatchcase(name.lower(), pattern.lower()):
            warnings.warn(
                f"{storage.uri}/{name}: is not read, since {pattern!r} has other capital letters; name the folder, or "
                "write the pattern as the names are",
                stacklevel=2,
            )


def _directly_in(storage: Storage, odd: set[str]) -> list[str]:
    """The tars directly in a folder; warns of transcripts beside them, which are not read. For `odd` see `_tars`."""
    tars, texts = ([name for name in found if "/" not in name] for found in _tars(storage, odd))
    if tars:
        _warn_of_texts(storage, texts)
    return tars


def _texts_of(storage: Storage, tars: Iterable[str]) -> Iterator[str]:
    """Files that hold transcripts of these tars; no store is asked where Lhotse and NeMo would not call a tar so."""
    return (path for tar in tars for path in possible_texts(tar) if storage.exists(path))


def _warn_of_texts(storage: Storage, paths: Iterable[str]) -> None:
    """Warn if one of these files holds transcripts of the recordings in tars, which no reader of tars sees."""
    if (loss := texts_beside(paths)) is not None:
        warnings.warn(f"{storage.uri}/{loss}", stacklevel=2)


def _tars(storage: Storage, odd: set[str], prefix: str = "") -> tuple[list[str], list[str]]:
    """Paths below a prefix whose suffix is a tar's, sorted; and paths of files that may hold transcripts.

    Tars that are not regular files are added to `odd`.
    """
    names, texts = set[str](), []
    with listing(storage):
        for entry in storage.list(prefix):
            if is_tar(entry.path):
                names.add(entry.path)
            elif may_be_texts(entry.path):
                texts.append(entry.path)
    if isinstance(storage, LocalStorage):
        odd.update(path for path in storage.list_odd(prefix) if is_tar(path))
    return sorted(names | {path for path in odd if path.startswith(prefix)}), texts


def _checked(storage: Storage, names: Sequence[str], odd: Collection[str]) -> tuple[str, ...]:
    """The names. Raises `NotAFileError` if one of them is `odd`."""
    for name in names if odd else ():
        if name in odd:
            raise NotAFileError(
                f"{storage.uri}/{name}: is {_oddity(storage, name) or 'not a file'}, not a tar; put the tar there, or "
                "remove or rename what is there"
            )
    return tuple(names)


def _oddity(storage: Storage, name: str) -> str | None:
    """Kind of a local name that does not lead to a file; None for a file, for a missing name, and in other stores."""
    path = storage.local_path(name)
    return None if path is None else oddity(path)


def _of_split(names: Sequence[str], split: str | None) -> list[str]:
    """Names whose file name begins with the split; all of them for None."""
    if split is None:
        return list(names)
    found = [name for name in names if re.match(rf"(latent_)?{re.escape(split)}([._-]|\d|$)", name.rpartition("/")[2])]
    if names and not found:
        raise ConfigError(
            f"split={split!r}: the name of none of {len(names)} shards begins with it (the first is {names[0]}); leave "
            "it out to read all of them"
        )
    return found


def _in_snapshots(storage: Storage, names: list[str], snapshot: int | None) -> tuple[list[str], int | None]:
    """The names without shards of other snapshots of their folders, and the number of the snapshot.

    Names in folders without snapshots all stay.
    """
    folders = {name.rpartition("/")[0] for name in names}
    outputs = {
        folder: (below, read_snapshot(below, snapshot))
        for folder in folders
        if has_snapshots(below := storage.at(folder) if folder else storage)
    }
    kept = {folder: frozenset(read_table(below, found.snapshot).names()) for folder, (below, found) in outputs.items()}
    parts = [(name, *name.rpartition("/")[::2]) for name in names]
    current = [name for name, folder, file in parts if folder not in kept or file in kept[folder]]
    numbers = [found.number for _, found in outputs.values()]
    return current, numbers[0] if len(numbers) == 1 else None


def _newest_if_listed(storage: Storage, sizes: Mapping[str, int]) -> tuple[int, ShardTable] | None:
    """Number and table of a folder's newest snapshot if `sizes` lists exactly its shards."""
    try:
        if has_snapshots(storage):
            newest = read_snapshot(storage)
            table = read_table(storage, newest.snapshot)
            return (newest.number, table) if sizes.keys() == set(table.names()) else None
    except StoreUnavailableError:
        raise
    except HeadraceError:  # a reader who may not list the folder takes the file as it is
        pass
    return None
