"""Indexes tars of others together with their columns: the command `headrace index --columns`.

Of each tar that is new or changed, the headers of members and the JSON, text and class members are read. Indexes, the
snapshot of the tars (`tar_lists`) and the set of columns `metadata` are written into one folder, and no byte of a tar.
Tables of columns wait on the local disk until the types of all tars are known.
"""

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.format.beside.column_files import SPECS_KEY, publish_columns, published_columns, read_columns
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.column_table import ColumnKind, ColumnSpec, ColumnTable
from headrace.format.indexes.foreign_indexes import find_foreign_index
from headrace.format.indexes.index import DIGEST_NOTE, VERSION_NOTE, ShardIndex
from headrace.format.indexes.index_files import find_index, is_outdated, write_index
from headrace.format.indexes.indexing import index_tar, key_rule_of
from headrace.format.manifests.manifests import (
    Manifest,
    NumberedManifest,
    ShardEntry,
    commit_manifest,
    newest_manifests,
    parsed_name,
    read_manifest,
    sequence_of,
    shard_name,
    split_of,
)
from headrace.format.shards.writer import ShardPlace
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import Snapshot, read_snapshot, snapshot_numbers
from headrace.format.snapshots.tar_lists import (
    TARS,
    TarList,
    commit_tars,
    is_index_of,
    read_tar_list,
    tar_version,
)
from headrace.format.tars.member_names import Naming
from headrace.locate.tars import PlainTars
from headrace.machine import num_cores
from headrace.ordered import TaskThreads, map_in_order
from headrace.stores.ranged_files import opened_sparsely
from headrace.stores.storage import Bucket, LocalStorage, Storage
from headrace.upkeep.tar_columns import VALUES_VERSION, as_kinds, common_kinds, kinds_of, with_columns
from headrace.upkeep.tar_splits import placed, splits_of
from headrace.views.names import METADATA

COLUMNS = f"columns/{METADATA}"
_PIECE_BYTES = 2048  # a header, a short JSON, and the header and first bytes of the next member
_HEADERS_BYTES = 1600  # likewise, where the JSON is short enough to be skipped
_TARS_OF_PARTITION = 256
_REMOTE_AT_ONCE = 64  # each mostly waits for an answer


@dataclass(frozen=True, slots=True)
class IndexedTar:
    """The result of indexing one tar.

    Attributes:
        name: path of the tar.
        num_samples: number of samples; 0 when it could not be indexed.
        num_bytes: size in bytes.
        fault: why it could not be indexed; empty when it was indexed.
    """

    name: str
    num_samples: int
    num_bytes: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class TarSet:
    """Tars and the folder that gets what is known of them.

    Attributes:
        tars: the tars that were named.
        into: the folder.
        naming: how the names of members are read.
        reads_members: whether the set of columns has the values of JSON, text and class members, besides facts.
    """

    tars: PlainTars
    into: Storage
    naming: Naming
    reads_members: bool = True

    @property
    def root(self) -> str:
        """See `TarList.root`."""
        storage = self.tars.storage
        if storage.uri == self.into.uri:
            return ""
        return str(storage.root.absolute()) if isinstance(storage, LocalStorage) else storage.uri


@dataclass(frozen=True, slots=True)
class _Read:
    """Result of reading a tar: its entry in a manifest without its place, and its table of columns on disk."""

    entry: ShardEntry
    digest: str
    table: Path
    kinds: Mapping[tuple[bool, str], ColumnKind | None]


@dataclass(slots=True)
class _Known:
    """Content of the folder from earlier calls.

    Attributes:
        tars: the list of tars.
        entries: path of a tar → its entry in a manifest.
        columns: path of a tar → its file of columns.
        specs: the columns of all tars.
    """

    tars: TarList
    entries: dict[str, ShardEntry] = field(default_factory=dict)
    columns: dict[str, ShardEntry] = field(default_factory=dict)
    specs: tuple[ColumnSpec, ...] = ()

    @classmethod
    def of(cls, wanted: TarSet) -> "_Known":
        """Read the newest snapshots of a folder.

        Raises:
            ConfigError: the folder has tars of another place, or with another rule for keys.
        """
        folder = wanted.into.at(TARS)
        if not snapshot_numbers(folder):
            return cls(TarList(wanted.root, wanted.naming.key_at, {}))
        snapshot = read_snapshot(folder).snapshot
        tars = read_tar_list(folder, snapshot)
        if (tars.root, tars.key_at) != (wanted.root, wanted.naming.key_at):
            raise ConfigError(
                f"{wanted.into.uri}: has the columns of the tars in {tars.root or wanted.into.uri}, with keys at "
                f"{tars.key_at.value}: name another folder with --into"
            )
        try:
            columns = fitting_columns(wanted.into.at(COLUMNS), snapshot)
        except NotFoundError:  # a call was killed in between: all tars are read again
            return cls(tars)
        paths = {place: path for path, place in tars.places().items()}
        of_columns = _entries(columns.storage, columns.snapshot.snapshot, paths)
        return cls(tars, _entries(folder, snapshot, paths), of_columns, columns.specs)

    def has_columns(self, storage: Storage, sizes: Mapping[str, int], tar: str) -> bool:
        """Whether the columns of a tar are there, and in a local folder also sound; otherwise the tar is read again."""
        entry = self.columns.get(tar)
        if entry is None or sizes.get(entry.name) != entry.num_bytes:
            return False
        is_local = storage.local_path(entry.name) is not None
        return not is_local or published_columns(storage, entry.name, entry.num_bytes) is not None


def index_with_columns(
    wanted: TarSet, num_threads: int | None, progress: Callable[[IndexedTar], None]
) -> list[IndexedTar]:
    """Index tars with their columns; a tar whose version is known is not read again.

    Tars that were indexed by earlier calls stay in the snapshot while they exist. If any tar is not valid, no snapshot
    is written. The results are those of the tars that were named, in their order. `num_threads` is as in `index_tars`.

    Raises:
        ConfigError: see `_Known.of`.
    """
    known = _Known.of(wanted)
    if any(not spec.is_fact for spec in known.specs):
        wanted = replace(wanted, reads_members=True)  # a set that has columns keeps them
    splits = splits_of(known.tars, wanted.tars.names)
    columns = wanted.into.at(COLUMNS)
    sizes = {entry.path: entry.num_bytes for entry in columns.list()} if known.columns else {}
    with tempfile.TemporaryDirectory(prefix="headrace-columns-") as spool:

        def read(numbered: tuple[int, str]) -> tuple[IndexedTar, _Read | None]:
            number, name = numbered
            before = known.entries[name] if known.has_columns(columns, sizes, name) else None
            return _one(wanted, (name, splits[name]), before, Path(spool) / str(number))

        results, found = [], {}
        num_threads = num_threads or (_REMOTE_AT_ONCE if isinstance(wanted.tars.storage, Bucket) else num_cores())
        with TaskThreads(num_threads, "index") as pool:
            for result, new in map_in_order(pool, read, list(enumerate(wanted.tars.names)), window=2 * num_threads):
                progress(result)
                results.append(result)
                if new is not None:
                    found[result.name] = new
        if not any(result.fault for result in results) and any(result.num_samples for result in results):
            _commit(wanted, known, splits, found)
    return results


def _one(
    wanted: TarSet, named: tuple[str, str], before: ShardEntry | None, table: Path
) -> tuple[IndexedTar, _Read | None]:
    storage, (name, split) = wanted.tars.storage, named
    with ThreadPoolExecutor(1) as pool:  # a new tar is asked for both at once, since each is a wait
        looked = pool.submit(find_foreign_index, storage, name) if before is None else None
        version = tar_version(storage, name)
    rules = wanted.naming.key_at, wanted.naming.audio_fields, wanted.reads_members, VALUES_VERSION
    made_of = hashlib.sha256(f"{version} {rules!r}".encode()).hexdigest()
    if before is not None and before.input_digest == made_of and _is_indexed(wanted.into, name, before, version):
        return IndexedTar(name, before.num_samples, before.num_bytes), None
    theirs = find_foreign_index(storage, name) if looked is None else looked.result()
    try:
        with _opened(wanted, name) as file:
            if theirs is not None:
                theirs.plan(file, reads_members=wanted.reads_members)
            index = _current_index(wanted, name) or index_tar(
                file, name.rpartition("/")[2], naming=wanted.naming, has_checksums=False
            )
            if theirs is not None:
                theirs.compare(index)
            index, columns = with_columns(file, index, split, reads_members=wanted.reads_members)
    except FormatError as error:
        return IndexedTar(name, 0, storage.size(name), str(error)), None
    digest = hashlib.sha256(replace(index, shard="", notes={}).to_bytes()).hexdigest()
    notes = index.notes | {VERSION_NOTE: version, DIGEST_NOTE: digest}
    write_index(wanted.into, name, replace(index, notes=notes))
    table.write_bytes(columns.to_bytes())
    entry = ShardEntry(name, index.num_bytes, len(index), *_length(index), made_of, len(index))
    return IndexedTar(name, len(index), index.num_bytes), _Read(entry, digest, table, kinds_of(columns))


def _is_indexed(into: Storage, name: str, before: ShardEntry, version: str) -> bool:
    """Whether the index of a tar is there, and is the one of an earlier call."""
    try:
        found = find_index(into, name)
    except FormatError:
        return False
    return found is not None and is_index_of(found.index, before.name, version)


def _opened(wanted: TarSet, name: str) -> BinaryIO:
    storage, num_bytes = wanted.tars.storage, _PIECE_BYTES if wanted.reads_members else _HEADERS_BYTES
    if isinstance(storage, Bucket):
        return opened_sparsely(storage, name, num_bytes)
    file = storage.open(name)
    return io.BufferedReader(file.detach(), num_bytes) if isinstance(file, io.BufferedReader) else file


def _current_index(wanted: TarSet, name: str) -> ShardIndex | None:
    """Headrace's index beside a local tar that was not written again since: its members need not be found."""
    storage = wanted.tars.storage
    if not isinstance(storage, LocalStorage):
        return None
    try:
        found = find_index(storage, name)
    except FormatError:
        return None
    if found is None or is_outdated(storage, name, found) or key_rule_of(found.index) != wanted.naming.key_at:
        return None
    return found.index if wanted.naming.audio_fields in {(), found.index.audio_fields} else None


def _length(index: ShardIndex) -> tuple[int, float]:
    """Frames and seconds of all samples of a tar, as far as they are known."""
    known = index.num_frames.clip(min=0)
    rates = index.sample_rate_hz
    seconds = (known[rates > 0] / rates[rates > 0]).sum()
    return int(known.sum()), round(float(seconds), 6)


def _commit(wanted: TarSet, known: _Known, splits: Mapping[str, str], found: Mapping[str, _Read]) -> None:
    """Write columns, manifests and snapshots of the tars that are known and those that were read."""
    tars = placed(known.tars, wanted.tars.storage, splits)
    places = {path: ShardPlace(split, n // _TARS_OF_PARTITION, n) for path, (split, n) in tars.places().items()}
    folder, columns = wanted.into.at(TARS), wanted.into.at(COLUMNS)
    of_tars = {
        path: replace(found[path].entry, name=_name(place, found[path].digest))
        if path in found
        else known.entries[path]
        for path, place in places.items()
    }
    before = [known.columns[path] for path in places if path not in found]
    of_found = [one.kinds for one in found.values()]
    kinds = common_kinds([_known_kinds(known.specs, columns, before, of_found), *of_found])
    of_columns = []
    for path, place in places.items():
        if path in found or kinds != _kinds(known.specs):
            table = _table(columns, found.get(path), known.columns.get(path))
            of_columns.append(_published(columns, place, as_kinds(table, kinds), of_tars[path]))
        else:
            of_columns.append(known.columns[path])
    snapshot, _ = commit_tars(folder, _manifests(folder, of_tars.values()), tars)
    origin = {
        "audio_snapshot": snapshot.number,
        "audio_fingerprint": snapshot.snapshot.fingerprint,
        "set": METADATA,
        SPECS_KEY: [asdict(ColumnSpec(name, kind, is_fact)) for (is_fact, name), kind in kinds.items()],
    }
    commit_snapshot(columns, _manifests(columns, of_columns), "", origin)


def _kinds(specs: Sequence[ColumnSpec]) -> dict[tuple[bool, str], ColumnKind]:
    return {(spec.is_fact, spec.name): spec.kind for spec in specs}


def _known_kinds(
    specs: Sequence[ColumnSpec],
    columns: Storage,
    before: Iterable[ShardEntry],
    found: Sequence[Mapping[tuple[bool, str], ColumnKind | None]],
) -> dict[tuple[bool, str], ColumnKind | None]:
    """The types of the columns of earlier calls; None for text without any value, where new tars have other values."""
    kinds: dict[tuple[bool, str], ColumnKind | None] = {**_kinds(specs)}
    others = {name for one in found for name, kind in one.items() if kind not in {None, kinds.get(name)}}
    without = {name for name in others if kinds.get(name) is ColumnKind.STRING}
    for entry in before:
        if without:
            there = kinds_of(read_columns(columns, entry.name))
            without = {name for name in without if there.get(name) is None}
    return kinds | dict.fromkeys(without)


def _name(place: ShardPlace, digest: str) -> str:
    return shard_name("", place.split, place.bucket, place.sequence, digest)


def _table(columns: Storage, new: _Read | None, kept: ShardEntry | None) -> ColumnTable:
    """The columns of a tar that was read now, or by an earlier call."""
    if new is not None:
        return ColumnTable.from_bytes(new.table.read_bytes(), str(new.table))
    assert kept is not None, "a tar that was not read is known"
    return read_columns(columns, kept.name)


def _published(storage: Storage, place: ShardPlace, table: ColumnTable, tar: ShardEntry) -> ShardEntry:
    digest = hashlib.sha256(f"{place.sequence}\n".encode() + replace(table, input_digest="").to_bytes()).hexdigest()
    name, num_bytes = publish_columns(storage, place, replace(table, input_digest=digest))
    return ShardEntry(name, num_bytes, len(table), 0, tar.seconds, digest, len(table))


def _entries(storage: Storage, snapshot: Snapshot, paths: Mapping[tuple[str, int], str]) -> dict[str, ShardEntry]:
    """Path of a tar → its entry in the manifests of a snapshot."""
    manifests = [read_manifest(storage, name, number).manifest for name, number in snapshot.manifests.items()]
    shards = [(split_of(one.partition), sequence_of(shard.name), shard) for one in manifests for shard in one.shards]
    return {paths[split, number]: shard for split, number, shard in shards if (split, number) in paths}


def _manifests(storage: Storage, entries: Iterable[ShardEntry]) -> dict[str, NumberedManifest]:
    """The manifest of each partition; one that changed is committed."""
    partitions: dict[str, list[ShardEntry]] = {}
    for entry in entries:
        parts = parsed_name(entry.name)
        partitions.setdefault(f"{parts['split']}-{parts['bucket']}", []).append(entry)
    newest = newest_manifests(storage)
    found = {}
    for name, shards in partitions.items():
        before = newest.get(name)
        wanted = hashlib.sha256("\n".join(shard.name for shard in shards).encode()).hexdigest()
        manifest = Manifest(name, wanted, "", {}, tuple(shards))
        is_new = before is None or before.manifest != manifest
        found[name] = commit_manifest(storage, manifest, before) if is_new or before is None else before
    return found
