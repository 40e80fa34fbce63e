"""Lists what `headrace verify` does not look at: files that are beside the shards, and that nothing in them describes.

So "no faults" is never understood to speak of them. Files are listed, never opened.
"""

import contextlib
from collections.abc import Collection, Iterator

from headrace.assemble.centroids import centroid_files
from headrace.errors import HeadraceError
from headrace.format.beside.view_files import read_view
from headrace.format.indexes.index import files_of_shard
from headrace.format.indexes.index_files import other_name
from headrace.format.manifests.manifests import manifest_path, newest_entries, numbered_keys
from headrace.format.snapshots.snapshots import read_table, snapshot_path
from headrace.format.snapshots.tar_lists import TARS, folder_of, tar_list_path
from headrace.locate import Location
from headrace.locate.listing import UnlistedError, listing
from headrace.locate.names import is_pattern
from headrace.locate.outputs import ITSELF, ShardFolder, folders_of_output, view_folders
from headrace.stores.storage import Storage

_SHOWN = 3
_OF_FOLDERS = ("sizes.json", "verified.json")


def unseen_in_output(located: Location) -> Iterator[str]:
    """List files that are not looked at in an output or a shard folder, one sentence for each folder."""
    seen = set[str]()
    for folder in located.all_folders():
        seen |= {_below(folder, path) for path in _seen_of(folder)}
    if located.is_output:
        for view in view_folders(located.storage):
            seen |= {_below(view, path) for path in _seen_of_view(view)}
    return _sentences(located.storage, seen)


def unseen_beside_tars(located: Location, indexed: ShardFolder | None) -> Iterator[str]:
    """List files that are not looked at in a folder of tars; nothing for a pattern, which says what is meant."""
    assert located.tars is not None
    if is_pattern(located.named):
        return iter(())
    names = located.tars.names
    seen = {path for name in names for path in (*files_of_shard(name), other_name(name))}
    storage = located.tars.storage
    if indexed is not None and folder_of(indexed.storage).uri == storage.uri:
        for folder in (indexed, *folders_of_output(storage)):
            seen |= {_below(folder, path) for path in _seen_of(folder)}
        with contextlib.suppress(HeadraceError):  # reported as a fault
            seen.add(_below(indexed, tar_list_path(str(indexed.snapshot().snapshot.origin.get(TARS)))))
        for view in view_folders(storage):
            seen |= {_below(view, path) for path in _seen_of_view(view)}
    return _sentences(storage, {*seen, *_OF_FOLDERS})


def _seen_of(folder: ShardFolder) -> Iterator[str]:
    """The files of a shard folder that are read: all snapshots and their manifests, and shards of the newest one."""
    storage = folder.storage
    yield from _OF_FOLDERS
    for number in folder.numbers:
        with contextlib.suppress(HeadraceError):  # reported as a fault
            snapshot = folder.snapshot(number).snapshot
            yield snapshot_path(number)
            yield from (part.path for part in snapshot.parts)
            yield from (manifest_path(name, frozen) for name, frozen in snapshot.manifests.items())
            if number == folder.numbers[-1]:
                yield from (path for name in read_table(storage, snapshot).names() for path in files_of_shard(name))
    yield from centroid_files(storage)
    newest = newest_entries(storage)
    yield from (entry.path for _, entry in newest.values())
    yield from (path for name, number, path in numbered_keys(storage) if newest.get(name, (0,))[0] == number)


def _seen_of_view(view: ShardFolder) -> Iterator[str]:
    """The files of a view that are read: all snapshots, and the files of the newest one."""
    yield from map(snapshot_path, view.numbers)
    with contextlib.suppress(HeadraceError):  # reported as a fault
        yield from (file.path for file in read_view(view.storage, view.numbers[-1]).snapshot.files)


def _below(folder: ShardFolder, path: str) -> str:
    return path if folder.name == ITSELF else f"{folder.name}/{path}"


def _sentences(storage: Storage, seen: Collection[str]) -> Iterator[str]:
    """One sentence for each folder with files that are not `seen`."""
    groups: dict[str, list[str]] = {}
    with contextlib.suppress(UnlistedError), listing(storage):
        for entry in storage.list():
            if entry.path not in seen:
                groups.setdefault(entry.path.rpartition("/")[0], []).append(entry.path)
    for folder, paths in sorted(groups.items()):
        shown = ", ".join(path.rpartition("/")[2] for path in sorted(paths)[:_SHOWN])
        more = ", …" if len(paths) > _SHOWN else ""
        where = f"{storage.uri}/{folder}" if folder else storage.uri
        yield f"{where}: {len(paths)} files ({shown}{more})"
