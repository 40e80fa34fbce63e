"""Writes indexes and a `sizes.json` for existing tars: the command `headrace index`.

Tars are read in parallel. `sizes.json` is written last, and only if every tar is valid.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from headrace.catalog.stored.header import HEADER_PATH
from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.format.indexes.index import VERSION_NOTE, ShardIndex
from headrace.format.indexes.index_files import find_index, write_index
from headrace.format.indexes.indexing import index_tar, key_rule_of, naming_of
from headrace.format.sizes import parse_sizes
from headrace.format.snapshots.sizes_file import write_sizes
from headrace.format.snapshots.tar_lists import tar_version
from headrace.format.tars.member_names import KeyAt, Naming
from headrace.format.tars.tar import sha256_of
from headrace.format.tars.tar_names import is_plain_tar
from headrace.format.typed_json import json_value
from headrace.locate import locate
from headrace.locate.listing import has_snapshots
from headrace.locate.no_shards import no_samples
from headrace.locate.tars import PlainTars, has_name, indexed_folder
from headrace.machine import num_cores
from headrace.ordered import TaskThreads, map_in_order
from headrace.signed_urls import check_no_password, is_signed, unsigned
from headrace.stores.refetch import is_local
from headrace.stores.storage import Storage, open_storage
from headrace.upkeep.tar_sets import IndexedTar, TarSet, index_with_columns


def index_tars(  # noqa: PLR0913 - the options of the command
    pattern: str,
    *,
    num_threads: int | None = None,
    key_at: KeyAt = KeyAt.FIRST_DOT,
    audio_fields: Sequence[str] = (),
    columns: bool = False,
    into: str | None = None,
    progress: Callable[[IndexedTar], None] = lambda tar: None,  # noqa: ARG005
) -> list[IndexedTar]:
    """Write the index of every tar that matches, and the `sizes.json` of their folders.

    With `columns` or `into`, only the headers of members are read, and a snapshot and columns are written (`tar_sets`);
    also in a folder that has these already.

    An index is called `X.idx`, or `X.headrace.idx` where another tool's file has that name; that file stays. An
    existing `sizes.json` keeps its entries for other tars that still exist. If any tar is not valid, no `sizes.json` is
    written.

    Args:
        pattern: a folder, a shell glob or a brace pattern.
        num_threads: number of tars read at a time; by default one for each core, or 64 where only the headers of tars
            in a store are read, which is waiting.
        key_at: where keys end.
        audio_fields: names of the audio fields of samples with several audio files; empty for those that the existing
            indexes or the samples' JSON name, or else the one field `audio`.
        columns: whether to make columns of the JSON, text and class members, too.
        into: the folder that gets all files; None for that of the tars.
        progress: called after each tar.

    Returns:
        One result per tar, in the order of the names.

    Raises:
        NoShardsError: nothing matches.
        ConfigError: the tars belong to an output of Headrace, whose indexes the build writes; a tar is compressed; or
            the tars are local and `into` is in a store.
        FormatError: no tar holds a sample, or an existing `sizes.json` is not in WebDataset's plain form and so must
            not be replaced.
    """
    target = _target(pattern, into)
    found = locate(pattern).tars
    if found is None or any(map(has_snapshots, _folders(found.storage, found.names))):
        raise ConfigError(
            f"{pattern}: is in a data set that Headrace built; its indexes belong to the build, and `headrace verify` "
            "checks them"
        )
    if packed := [name for name in found.names if not is_plain_tar(name)]:
        raise ConfigError(f"{packed[0]}: is compressed; an index holds byte ranges of a plain .tar, so unpack it first")
    naming, target = Naming(key_at, audio_fields=tuple(audio_fields)), target or found.storage
    if is_local(found.storage) and not is_local(target):
        raise ConfigError(
            f"{into}: no reader follows a folder of a store to files of one machine ({found.storage.uri}): name a "
            "local folder with --into, or copy the tars to a store and index the copies"
        )
    for folder in _folders(target, found.names):
        read_sizes(folder)  # raises for a file that must not be replaced
    if columns or into is not None or indexed_folder(target) is not None:
        results = index_with_columns(TarSet(found, target, naming, columns), num_threads, progress)
    else:
        results = list(_indexed(found, num_threads or num_cores(), naming, progress))
    if not any(result.num_samples or result.fault for result in results):
        raise no_samples(f"{found.storage.uri}/{results[0].name}", len(results))
    if not any(result.fault for result in results):
        write_folder_sizes(target, {result.name: result.num_samples for result in results}, found.storage)
    return results


def _target(pattern: str, into: str | None) -> Storage | None:
    """The folder that gets the files; None for that of the tars.

    Raises:
        ConfigError: it is on the Hub, which takes no files, or an output of Headrace, or a URL has a password.
    """
    for name in (pattern, into or ""):
        check_no_password(name)
    if (into or pattern).startswith("hf://"):
        raise ConfigError(
            f"{into or pattern}: nothing is written to the Hub: pass --into DIR, a folder or a bucket that gets the "
            "indexes, and name DIR as remote"
        )
    if into is None and is_signed(pattern):
        raise ConfigError(
            f"{unsigned(pattern)}: a signed URL is read alone: for more, name the bucket, or pass --into DIR"
        )
    if into is None:
        return None
    target = open_storage(into)
    if any(map(has_snapshots, (target, target.at("audio")))) or target.exists(HEADER_PATH):
        raise ConfigError(f"{into}: is an output of Headrace, or a part of one: name another folder with --into")
    return target


def _folders(storage: Storage, names: Iterable[str]) -> list[Storage]:
    """The folders of these tars."""
    return [storage.at(folder) if folder else storage for folder in sorted({name.rpartition("/")[0] for name in names})]


def _indexed(
    found: PlainTars, num_threads: int, naming: Naming, progress: Callable[[IndexedTar], None]
) -> Iterator[IndexedTar]:
    def index(name: str) -> IndexedTar:
        return _index_one(found.storage, name, naming)

    with TaskThreads(num_threads, "index") as pool:
        for result in map_in_order(pool, index, found.names, window=2 * num_threads):
            progress(result)
            yield result


def _index_one(storage: Storage, name: str, wanted: Naming) -> IndexedTar:
    num_bytes = storage.size(name)
    there = _sound_index(storage, name)
    try:
        with storage.open(name) as file:
            sha256 = sha256_of(file)
            if (
                there is not None
                and (there.sha256, key_rule_of(there)) == (sha256, wanted.key_at)
                and there.input_digest
            ):
                return IndexedTar(name, len(there), num_bytes)  # written by a build: it holds more than the tar does
            naming, file_name = naming_of(wanted.key_at, there), name.rpartition("/")[2]
            naming = replace(naming, audio_fields=wanted.audio_fields or naming.audio_fields)
            index = index_tar(file, file_name, sha256=sha256, naming=naming)
        if there is not None and there.notes.get(VERSION_NOTE) == tar_version(storage, name):
            index = replace(index, notes=index.notes | there.notes)  # the columns beside the tar know it by them
        write_index(storage, name, index)
    except FormatError as error:
        return IndexedTar(name, 0, num_bytes, str(error))
    return IndexedTar(name, len(index), num_bytes)


def _sound_index(storage: Storage, name: str) -> ShardIndex | None:
    """Headrace's index beside a tar; None where it is missing or damaged."""
    try:
        found = find_index(storage, name)
    except FormatError:
        return None
    return None if found is None else found.index


def write_folder_sizes(storage: Storage, counts: dict[str, int], tars: Storage | None = None) -> None:
    """Write the `sizes.json` of every folder that holds one of these tars; `tars` has them if `storage` has not."""
    folders: dict[str, dict[str, int]] = {}
    for path, count in counts.items():
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, {})[name] = count
    for folder, here in sorted(folders.items()):
        below = storage.at(folder) if folder else storage
        for name, count in read_sizes(below).items():
            if name not in here and has_name(tars or storage, f"{folder}/{name}".lstrip("/")):
                here[name] = count
        write_sizes(below, ((name, here[name]) for name in sorted(here)))


def read_sizes(storage: Storage) -> dict[str, int]:
    """The `sizes.json` of a folder; empty without one.

    Raises:
        FormatError: it is not valid, or holds more than counts, as lists of wids do, which would be lost.
    """
    uri = f"{storage.uri}/sizes.json"
    try:
        blob = storage.read("sizes.json")
    except NotFoundError:
        return {}
    try:
        sizes = parse_sizes(blob, uri)
    except FormatError as error:
        raise FormatError(f"{error}. Move that file away first, so that `headrace index` can write its own") from error
    if sizes != json_value(blob):
        raise FormatError(f"{uri}: is a list of wids, which `headrace index` does not replace: move it away first")
    return sizes
