"""Describes tars of others that have a snapshot: which tar each shard of the snapshot is.

The snapshot is in the folder `tars/`. Its shards have names of Headrace, by which columns and views find them; a file
beside the snapshot, `<digest>.tars`, has the paths of the tars themselves. `headrace index --columns` writes both.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial

from headrace.errors import AlreadyExistsError, FormatError, IntegrityError
from headrace.format import tables
from headrace.format.indexes.index import DIGEST_NOTE, VERSION_NOTE, ShardIndex
from headrace.format.manifests.manifests import NumberedManifest
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshot_draft import Drafting
from headrace.format.snapshots.snapshots import (
    SNAPSHOTS,
    NumberedSnapshot,
    Snapshot,
    read_part,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
)
from headrace.format.tars.member_names import KeyAt
from headrace.format.tars.tar_names import digest_ending, without_suffix
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json
from headrace.stores.refetch import is_local, read_sound
from headrace.stores.storage import Storage, Transfer, open_storage

TARS = "tars"
"""The folder with the snapshots, and the field of `Snapshot.origin` with the digest of the list."""
_KEY = "headrace_tars"
_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class TarList:
    """The tars of a snapshot.

    Attributes:
        root: the folder that paths are relative to; empty for the folder that holds `tars/`.
        key_at: where keys end.
        paths: split → path of the tar with each sequence number; empty where a tar is gone.
    """

    root: str
    key_at: KeyAt
    paths: dict[str, tuple[str, ...]]

    def of_rows(self, table: ShardTable) -> list[str]:
        """The path of the tar of each row of a table of shards. Raises `FormatError` if the list has no such tar."""
        try:
            splits = [self.paths[split] for split in table.splits]
            return [splits[split][at] for split, at in zip(table.split.tolist(), table.sequence.tolist(), strict=True)]
        except LookupError as error:
            raise FormatError(f"{self.root}: the list of tars lacks one of its snapshot; {tables.WAY_OUT}") from error

    def storage(self, folder: Storage, transfer: Transfer | None = None) -> Storage:
        """The folder that paths are relative to.

        Args:
            folder: the folder `tars/` that the list was read from.
            transfer: time limits of the store.

        Raises:
            FormatError: a list that was fetched leads to this machine's own files.
        """
        if not self.root:
            return folder_of(folder, transfer)
        if not is_local(folder) and ("://" not in self.root or self.root.startswith("file:")):
            raise FormatError(
                f"{folder.uri}: lists tars in {self.root}, which is not in a store; index their copies there"
            )
        return open_storage(self.root, transfer)

    def places(self) -> dict[str, tuple[str, int]]:
        """Path → split and sequence number."""
        return {
            path: (split, number) for split, paths in self.paths.items() for number, path in enumerate(paths) if path
        }

    def to_json(self) -> bytes:
        """The bytes of the file; equal lists give equal bytes."""
        return versioned_bytes(_KEY, asdict(self))

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "TarList":
        """Parse a list. Raises `FormatError` if it is not one, damaged, or of a newer format."""
        content = versioned_json(blob, name, _KEY)
        try:
            return typed(cls, content)
        except ValueError as error:
            raise FormatError(f"{name}: an incomplete list of tars ({error}); {tables.WAY_OUT}") from error


def read_tar_list(storage: Storage, snapshot: Snapshot) -> TarList:
    """The tars of a snapshot.

    Args:
        storage: the folder `tars/`.
        snapshot: one of its snapshots.

    Raises:
        NotFoundError: the file does not exist.
        FormatError: it is damaged, or another file has its name.
    """
    wanted = str(snapshot.origin.get(TARS))

    def parse(blob: bytes, name: str) -> TarList:
        if hashlib.sha256(blob).hexdigest() != wanted:
            raise FormatError(f"{name}: does not have the digest in its snapshot; {tables.WAY_OUT}")
        return TarList.from_json(blob, name)

    return read_sound(storage, tar_list_path(wanted), parse)


def tar_version(storage: Storage, path: str) -> str:
    """A string that changes with the content of a tar; links to a local one do not change it."""
    if storage.local_path(path) is None:
        return storage.version(path)
    found = storage.stat(path)
    return f"{found.num_bytes}-{found.modified_seconds!r}"


def is_current(storage: Storage, path: str, index: ShardIndex) -> bool:
    """Whether a tar was not written again since its index was made, as far as the index and the store say.

    Web servers are not asked: replicas of one may have other times and ETags for the same bytes.
    """
    noted = index.notes.get(VERSION_NOTE)
    if noted is None or storage.uri.startswith(_WEB) or noted == tar_version(storage, path):
        return True
    return storage.local_path(path) is not None and _without_ctime(noted) == _without_ctime(storage.version(path))


def check_version(storage: Storage, path: str, index: ShardIndex) -> None:
    """Raise `IntegrityError` if a tar was written again since its index was made, and no checksum would show it."""
    if not index.has_checksums and not is_current(storage, path, index):
        raise IntegrityError(f"{storage.uri}/{path}: was written again since it was indexed: open the data set again")


def _without_ctime(version: str) -> str:
    """The size and the time of change of a local tar, without the time that a link to it or other rights change."""
    return version.rpartition("-")[0]


def folder_of(storage: Storage, transfer: Transfer | None = None) -> Storage:
    """The folder that holds this folder `tars/`, and the indexes."""
    return open_storage(storage.uri.rstrip("/").rpartition("/")[0], transfer)


def commit_tars(
    storage: Storage, manifests: Mapping[str, NumberedManifest], tars: TarList
) -> tuple[NumberedSnapshot, bool]:
    """Commit the tars of these manifests as a snapshot, unless the newest is equal. No tar is looked at.

    Args:
        storage: the folder `tars/`.
        manifests: partition → its manifest.
        tars: the tars.

    Returns:
        The newest snapshot, and whether it is new.

    Raises:
        AlreadyExistsError: another writer committed first.
    """
    numbers = snapshot_numbers(storage)
    newest = read_snapshot(storage, numbers[-1]) if numbers else None
    number, blob = (numbers[-1] if numbers else 0) + 1, tars.to_json()
    digest = hashlib.sha256(blob).hexdigest()
    drafting = Drafting(
        None if newest is None else newest.snapshot,
        manifests,
        lambda partition: manifests[partition].manifest,
        partial(read_part, storage),
        lambda part: storage.exists(part.path),
        lambda first, digest: f"{number:08d}-{first}{digest_ending(digest)}.shards",
    )
    draft = drafting.draft("", {TARS: digest})
    if newest is not None and newest.snapshot.digest == draft.snapshot.digest:
        return newest, False
    for path, part in {**draft.new_parts, tar_list_path(digest): blob}.items():
        storage.write(path, part)
    try:
        storage.create(snapshot_path(number), draft.snapshot.to_json())
    except AlreadyExistsError as error:
        raise AlreadyExistsError(f"{storage.uri}: another `headrace index` was faster; run it again") from error
    return NumberedSnapshot(number, draft.snapshot), True


def is_index_of(index: ShardIndex, shard: str, version: str) -> bool:
    """Whether an index is the one that a snapshot of tars had.

    Args:
        index: the index.
        shard: name of the tar's shard in the snapshot.
        version: of the tar that is there now (`tar_version`).
    """
    digest = index.notes.get(DIGEST_NOTE, "")
    is_named_so = bool(digest) and without_suffix(shard).endswith(digest_ending(digest))
    return is_named_so and index.notes.get(VERSION_NOTE) == version


def tar_list_path(digest: str) -> str:
    """The file with the list that has a digest."""
    return f"{SNAPSHOTS}{digest[:12]}.tars"
