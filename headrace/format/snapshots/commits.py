"""Commits snapshots: numbered states of a whole shard folder, made from the newest manifests.

A commit costs what changed since the newest snapshot. It creates the next number, and fails if another writer was
faster; it also writes `sizes.json`. Proposed snapshots keep a `gc` from deleting what is about to be named
(docs/design/0036); only the files of partitions that changed are looked at, because those of the others are in the
newest snapshot, which no `gc` removes (docs/design/0044).
"""

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import AlreadyExistsError, BuildError, HeadraceError, NotFoundError
from headrace.format.manifests.manifests import KnownManifest, Manifest, NumberedManifest, manifest_path, read_manifest
from headrace.format.shards.condemned import condemned_paths
from headrace.format.shards.shard_files import sizes_of_shards
from headrace.format.snapshots.sizes_file import mend_sizes
from headrace.format.snapshots.snapshot_draft import Draft, Drafting, made_again
from headrace.format.snapshots.snapshots import (
    PROPOSED_SUFFIX,
    SNAPSHOTS,
    NumberedSnapshot,
    Snapshot,
    lost_parts,
    proposals,
    read_part,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
)
from headrace.format.tars.tar_names import digest_ending
from headrace.stores.storage import Storage

_SHOWN = 5


def commit_snapshot(
    storage: Storage,
    manifests: Mapping[str, KnownManifest],
    catalog: str,
    origin: Mapping[str, Any],
    check: Callable[[Snapshot], None] = lambda proposed: None,  # noqa: ARG005
) -> tuple[NumberedSnapshot, bool]:
    """Commit the state of these manifests as a snapshot, unless the newest is equal, and write `sizes.json`.

    Args:
        storage: the shard folder.
        manifests: partition → its manifest, or a summary of it; only manifests that changed are read.
        catalog: digest of the catalog from which they were built.
        origin: for latents, the audio snapshot and the encoder from which they were computed.
        check: called with the snapshot once it is proposed, when no gc deletes anything that it names; raises to
            commit nothing, for example if something that `origin` names does not exist any more.

    Returns:
        The newest snapshot, and whether it is new.

    Raises:
        AlreadyExistsError: another writer committed, or a gc deleted a manifest meanwhile: read the manifests again and
            decide again.
        BuildError: shards of the snapshot are missing.
    """
    numbers = snapshot_numbers(storage)
    newest = read_snapshot(storage, numbers[-1]) if numbers else None
    number = numbers[-1] + 1 if numbers else 1
    commit = _Commit(storage, manifests, number, condemned_paths(storage))
    base = None if newest is None else newest.snapshot
    draft = commit.drafted(base, catalog, origin)
    if newest is not None and _same_state(newest.snapshot, draft.snapshot):
        commit.mend_parts(newest.snapshot)
        mend_sizes(storage, newest.snapshot)
        _remove_overtaken(storage)
        return newest, False
    for path, blob in draft.new_parts.items():
        storage.write(path, blob)
    with _proposed(storage, number, draft.snapshot):
        commit.check_lasts(draft.snapshot, draft.changed)
        check(draft.snapshot)
        storage.create(snapshot_path(number), draft.snapshot.to_json())
        if snapshot_numbers(storage)[-1] != number:
            commit.withdraw_if_late(draft.snapshot)
    mend_sizes(storage, draft.snapshot, base)
    _remove_overtaken(storage)
    return NumberedSnapshot(number, draft.snapshot), True


@dataclass(frozen=True, slots=True)
class _Commit:
    """One attempt at a commit.

    Attributes:
        storage: the shard folder.
        manifests: partition → its manifest, or a summary of it.
        number: the number of the snapshot.
        doomed: files that a gc may delete, as of the beginning.
    """

    storage: Storage
    manifests: Mapping[str, KnownManifest]
    number: int
    doomed: frozenset[str]

    def drafted(self, base: Snapshot | None, catalog: str, origin: Mapping[str, Any]) -> Draft:
        """The snapshot to commit."""
        there = self._listed(SNAPSHOTS, self.doomed) if base is not None else {}
        drafting = Drafting(
            base,
            self.manifests,
            self.manifest,
            lambda part: read_part(self.storage, part),
            lambda part: there.get(part.path) == part.num_bytes,
            self._free_name,
        )
        return drafting.draft(catalog, origin)

    def manifest(self, partition: str) -> Manifest:
        """The manifest of a partition. Raises `AlreadyExistsError` if a gc deleted it."""
        found = self.manifests[partition]
        if isinstance(found, NumberedManifest):
            return found.manifest
        try:
            return read_manifest(self.storage, partition, found.number).manifest
        except NotFoundError as error:
            raise AlreadyExistsError(f"{error}; there is a newer manifest") from error

    def mend_parts(self, snapshot: Snapshot) -> None:
        """Write the parts of a snapshot's table again that are missing or damaged."""
        for part in lost_parts(self.storage, snapshot):
            self.storage.write(part.path, made_again(snapshot, part, self.manifest))

    def check_lasts(self, snapshot: Snapshot, partitions: Iterable[str]) -> None:
        """Raise the errors of `commit_snapshot` unless the files that a proposed snapshot names exist and stay.

        Args:
            snapshot: the proposed snapshot: its manifests and its table are looked at.
            partitions: the partitions whose shards are looked at.
        """
        doomed = condemned_paths(self.storage)
        there = self._listed(SNAPSHOTS, doomed) | self._listed("manifests/", doomed)
        named = [manifest_path(partition, found.number) for partition, found in snapshot.partitions.items()]
        gone = [path for path in named if path not in there]
        gone += [part.path for part in snapshot.parts if there.get(part.path) != part.num_bytes]
        if gone:
            raise AlreadyExistsError(f"{gone[0]}: gc is deleting it from {self.storage.uri}; there is a newer one")
        broken = [partition for partition in partitions if not self._is_whole(partition, doomed)]
        if broken:
            more = f" and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
            raise BuildError(
                f"{self.storage.uri}: shards of {len(broken)} partitions are missing, or gc is deleting them: "
                f"{', '.join(broken[:_SHOWN])}{more}; build these partitions again (`headrace build` does), then "
                "commit again"
            )

    def withdraw_if_late(self, snapshot: Snapshot) -> None:
        """Delete a snapshot that is not whole: while its writer was paused, its number was used and deleted by gc."""
        try:
            self.check_lasts(snapshot, snapshot.partitions)
        except HeadraceError as error:
            path = snapshot_path(self.number)
            self.storage.delete(path)
            raise AlreadyExistsError(f"{path}: this number was used before in {self.storage.uri}") from error

    def _is_whole(self, partition: str, doomed: frozenset[str]) -> bool:
        manifest = self.manifest(partition)
        names = [shard.name for shard in manifest.shards]
        file_prefix = names[0].rpartition("_")[0] + "_" if names else ""
        return not names or manifest.is_whole(sizes_of_shards(self.storage, file_prefix, names, doomed))

    def _listed(self, folder: str, doomed: frozenset[str]) -> dict[str, int]:
        return {entry.path: entry.num_bytes for entry in self.storage.list(folder) if entry.path not in doomed}

    def _free_name(self, first: str, digest: str) -> str:
        """A file name for a part of the table that no gc may delete."""
        name = stem = f"{self.number:08d}-{first}{digest_ending(digest)}"
        while f"{SNAPSHOTS}{name}.shards" in self.doomed:
            name = f"{stem}-{secrets.token_hex(2)}"
        return f"{name}.shards"


@contextlib.contextmanager
def _proposed(storage: Storage, number: int, snapshot: Snapshot) -> Iterator[None]:
    """A block in which a snapshot is proposed: a gc keeps what it names until a snapshot of its number exists."""
    path = f"{SNAPSHOTS}{number:08d}-{secrets.token_hex(6)}{PROPOSED_SUFFIX}"
    storage.write(path, snapshot.to_json())
    try:
        yield
    finally:
        storage.delete(path)


def _remove_overtaken(storage: Storage) -> None:
    """Delete proposals of writers that were killed or lost the race: a snapshot of their number exists."""
    newest = snapshot_numbers(storage)[-1]
    for number, path in proposals(storage):
        if number <= newest:
            storage.delete(path)


def _same_state(old: Snapshot, new: Snapshot) -> bool:
    """Whether two snapshots have the same shards, made from the same input."""
    return (old.fingerprint, old.catalog, old.manifests, old.origin) == (
        new.fingerprint,
        new.catalog,
        new.manifests,
        new.origin,
    )
