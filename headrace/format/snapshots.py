"""Reads and commits snapshots: numbered states of a whole shard folder.

A snapshot names the manifest of every partition and has a table of all shards. It is a small JSON file and a binary
table in `snapshots/`, so that a million shards open in well under a second. A commit creates the next number, and fails
if another writer was faster; it also writes `sizes.json`.
"""

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from headrace.errors import AlreadyExistsError, BuildError, FormatError, HeadraceError, NotFoundError
from headrace.format import tables
from headrace.format.condemned import lasting_sizes
from headrace.format.manifests import (
    NumberedManifest,
    ShardEntry,
    json_bytes,
    manifest_path,
    numbered_files,
    parsed_name,
    shard_name,
    split_of,
    versioned_bytes,
    versioned_json,
)
from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage

FORMAT_VERSION = 1
_SNAPSHOTS = "snapshots/"
_SHOWN = 5
_PROPOSED_SUFFIX = ".proposed"


@dataclass(frozen=True, slots=True)
class ShardTable:
    """All shards of a snapshot as columns, in 35 bytes per shard.

    Sorted by split, bucket and sequence number, so that each split is one slice.

    Attributes:
        prefix: first part of every name (`latent_`, or empty).
        splits: split names; `split` indexes them.
        split: uint8 (n,).
        bucket: int32 (n,).
        sequence: int32 (n,).
        digest: uint8 (n, 6), the digest in the name.
        num_samples: int32 (n,).
        num_bytes: int64 (n,), size of the tar.
        num_frames: int64 (n,), frames of all samples of the shard.
    """

    prefix: str
    splits: tuple[str, ...]
    split: np.ndarray[Any, np.dtype[np.uint8]]
    bucket: np.ndarray[Any, np.dtype[np.int32]]
    sequence: np.ndarray[Any, np.dtype[np.int32]]
    digest: np.ndarray[Any, np.dtype[np.uint8]]
    num_samples: np.ndarray[Any, np.dtype[np.int32]]
    num_bytes: np.ndarray[Any, np.dtype[np.int64]]
    num_frames: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        """Number of shards."""
        return len(self.split)

    def name(self, i: int) -> str:
        """File name of shard `i`."""
        split, digest = self.splits[self.split[i]], bytes(self.digest[i]).hex()
        return shard_name(self.prefix, split, int(self.bucket[i]), int(self.sequence[i]), digest)

    def names(self) -> list[str]:
        """All file names, in order."""
        return [self.name(i) for i in range(len(self))]

    def rows_of(self, split: str | None) -> slice:
        """The rows of one split (all for None); an empty slice for a split without shards."""
        if split is None:
            return slice(0, len(self))
        if split not in self.splits:
            return slice(0, 0)
        start, stop = np.searchsorted(self.split, [self.splits.index(split), self.splits.index(split) + 1])
        return slice(int(start), int(stop))

    def to_bytes(self) -> bytes:
        """The bytes of the `.shards` file; equal tables give equal bytes."""
        metadata = {"headrace_shards": str(FORMAT_VERSION), "prefix": self.prefix, "splits": "\n".join(self.splits)}
        return tables.pack({name: getattr(self, name) for name in _TABLE_COLUMNS}, metadata)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ShardTable":
        """Parse a `.shards` file; columns are read-only views of `blob`.

        Raises:
            FormatError: not a table of shards, cut off, or of a newer format.
        """
        arrays, metadata = tables.unpack(blob, name)
        if metadata.get("headrace_shards") != str(FORMAT_VERSION):
            raise FormatError(f"{name}: not a table of shards in format {FORMAT_VERSION}, which this version reads")
        splits = tuple(metadata["splits"].split("\n")) if metadata["splits"] else ()
        return cls(metadata["prefix"], splits, **{column: arrays[column] for column in _TABLE_COLUMNS})

    @classmethod
    def from_entries(cls, entries: Sequence[ShardEntry]) -> "ShardTable":
        """The table of these shards, sorted."""
        matches = [parsed_name(entry.name) for entry in entries]
        splits = tuple(sorted({match["split"] for match in matches}))
        keys = [(splits.index(m["split"]), int(m["bucket"]), int(m["sequence"])) for m in matches]
        order = sorted(range(len(entries)), key=keys.__getitem__)
        place = np.array([keys[i] for i in order], np.int32).reshape(len(order), 3)
        digests = b"".join(bytes.fromhex(matches[i]["digest"]) for i in order)
        return cls(
            prefix=matches[0]["prefix"] if matches else "",
            splits=splits,
            split=place[:, 0].astype(np.uint8),
            bucket=place[:, 1],
            sequence=place[:, 2],
            digest=np.frombuffer(digests, np.uint8).reshape(len(order), 6),
            num_samples=np.array([entries[i].num_samples for i in order], np.int32),
            num_bytes=np.array([entries[i].num_bytes for i in order], np.int64),
            num_frames=np.array([entries[i].num_frames for i in order], np.int64),
        )


_TABLE_COLUMNS = ("split", "bucket", "sequence", "digest", "num_samples", "num_bytes", "num_frames")


@dataclass(frozen=True, slots=True)
class SplitTotals:
    """Totals of one split of a snapshot."""

    num_shards: int
    num_samples: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state of a shard folder; it never changes.

    Attributes:
        catalog: digest of the catalog from which it was built.
        manifests: partition → number of its manifest.
        splits: totals by split.
        table: file name of the table of shards, beside the snapshot.
        fingerprint: SHA-256 (hex) of the table: equal fingerprints mean the same samples in the same shards.
        origin: for latents, the audio snapshot they belong to and the encoder; empty for audio.
    """

    catalog: str
    manifests: dict[str, int]
    splits: dict[str, SplitTotals]
    table: str
    fingerprint: str
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def num_samples(self) -> int:
        """Samples of all splits."""
        return sum(split.num_samples for split in self.splits.values())

    @property
    def num_shards(self) -> int:
        """Shards of all splits."""
        return sum(split.num_shards for split in self.splits.values())

    def to_json(self) -> bytes:
        """The bytes of the file; equal snapshots give equal bytes."""
        return versioned_bytes("headrace_snapshot", asdict(self))

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "Snapshot":
        """Parse a snapshot.

        Raises:
            FormatError: not a snapshot, damaged, or of a newer format.
        """
        content = versioned_json(blob, name, "headrace_snapshot")
        try:
            content["splits"] = {split: SplitTotals(**totals) for split, totals in content["splits"].items()}
            return cls(**content)
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"{name}: an incomplete snapshot ({error}); {tables.WAY_OUT}") from error


@dataclass(frozen=True, slots=True)
class NumberedSnapshot:
    """A snapshot and its number."""

    number: int
    snapshot: Snapshot


def snapshot_numbers(storage: Storage) -> list[int]:
    """Numbers of all snapshots, ascending."""
    return sorted(number for number, _ in numbered_files(storage, _SNAPSHOTS))


def snapshot_path(number: int) -> str:
    """File of one numbered snapshot."""
    return f"{_SNAPSHOTS}{number:08d}.json"


def read_snapshot(storage: Storage, number: int | None = None) -> NumberedSnapshot:
    """Snapshot `number`, or the newest one for None.

    Raises:
        NotFoundError: it does not exist; the message lists those that do.
    """
    numbers = snapshot_numbers(storage) if number is None else [number]
    if not numbers:
        raise NotFoundError(f"{storage.uri}: no snapshot yet; build the data set first")
    path = snapshot_path(numbers[-1])
    try:
        snapshot = read_sound(storage, path, Snapshot.from_json)
    except NotFoundError as error:
        there = snapshot_numbers(storage)
        raise NotFoundError(
            f"{storage.uri}: snapshot {number} is not there (there are {there}); was it removed by gc?"
        ) from error
    return NumberedSnapshot(numbers[-1], snapshot)


def read_table(storage: Storage, snapshot: Snapshot) -> ShardTable:
    """The table of shards of a snapshot.

    Raises:
        FormatError: its digest is not the one in the snapshot.
    """

    def parse(blob: bytes, name: str) -> ShardTable:
        if hashlib.sha256(blob).hexdigest() != snapshot.fingerprint:
            raise FormatError(f"{name}: does not have the digest in its snapshot; {tables.WAY_OUT}")
        return ShardTable.from_bytes(blob, name)

    return read_sound(storage, _SNAPSHOTS + snapshot.table, parse)


def next_snapshot(
    manifests: Mapping[str, NumberedManifest], catalog: str, origin: Mapping[str, Any], number: int
) -> tuple[Snapshot, ShardTable]:
    """The snapshot of these manifests and its table of shards, to be committed as `number`. Pure."""
    entries = [shard for _, numbered in sorted(manifests.items()) for shard in numbered.manifest.shards]
    table = ShardTable.from_entries([entry for entry in entries if entry.num_samples])
    fingerprint = hashlib.sha256(table.to_bytes()).hexdigest()
    splits: dict[str, SplitTotals] = {}
    for split in sorted({split_of(partition) for partition in manifests}):
        shards = [s for p, n in manifests.items() if split_of(p) == split for s in n.manifest.shards if s.num_samples]
        splits[split] = SplitTotals(
            num_shards=len(shards),
            num_samples=sum(shard.num_samples for shard in shards),
            num_bytes=sum(shard.num_bytes for shard in shards),
            seconds=round(sum(shard.seconds for shard in shards), 6),
        )
    numbers = {partition: numbered.number for partition, numbered in sorted(manifests.items())}
    name = f"{number:08d}-{fingerprint[:12]}.shards"
    return Snapshot(catalog, numbers, splits, name, fingerprint, dict(origin)), table


def commit_snapshot(
    storage: Storage,
    manifests: Mapping[str, NumberedManifest],
    catalog: str,
    origin: Mapping[str, Any],
    check: Callable[[], None] = lambda: None,
) -> tuple[NumberedSnapshot, bool]:
    """Commit the state of these manifests as a snapshot, unless the newest is equal, and write `sizes.json`.

    Args:
        storage: the shard folder.
        manifests: partition → its manifest.
        catalog: digest of the catalog from which they were built.
        origin: for latents, the audio snapshot and the encoder from which they were computed.
        check: called once the snapshot is proposed, when no gc deletes anything that it names; raises if something
            outside of this folder that `origin` names does not exist any more.

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
    snapshot, table = next_snapshot(manifests, catalog, origin, number)
    if newest is not None and _same_state(newest.snapshot, snapshot):
        _mend_table(storage, newest.snapshot, table)
        mend_sizes(storage, table)
        _remove_overtaken(storage)
        return newest, False
    storage.write(_SNAPSHOTS + snapshot.table, table.to_bytes())
    with _proposed(storage, number, snapshot):
        _check_lasts(storage, snapshot, manifests)
        check()
        storage.create(snapshot_path(number), snapshot.to_json())
        if snapshot_numbers(storage)[-1] != number:
            _withdraw_if_late(storage, number, snapshot, manifests)
    mend_sizes(storage, table)
    _remove_overtaken(storage)
    return NumberedSnapshot(number, snapshot), True


@contextlib.contextmanager
def _proposed(storage: Storage, number: int, snapshot: Snapshot) -> Iterator[None]:
    """A block in which a snapshot is proposed: a gc keeps what it names until a snapshot of its number exists."""
    path = f"{_SNAPSHOTS}{number:08d}-{secrets.token_hex(6)}{_PROPOSED_SUFFIX}"
    storage.write(path, snapshot.to_json())
    try:
        yield
    finally:
        storage.delete(path)


def _check_lasts(storage: Storage, snapshot: Snapshot, manifests: Mapping[str, NumberedManifest]) -> None:
    """Raise the errors of `commit_snapshot` unless everything that a proposed snapshot names exists and stays."""
    there = lasting_sizes(storage)
    named = [manifest_path(partition, numbered.number) for partition, numbered in manifests.items()]
    if gone := [path for path in [_SNAPSHOTS + snapshot.table, *named] if path not in there]:
        raise AlreadyExistsError(f"{gone[0]}: gc is deleting it from {storage.uri}; there is a newer one")
    broken = [partition for partition, numbered in manifests.items() if not numbered.manifest.is_whole(there)]
    if broken:
        more = f" and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
        raise BuildError(
            f"{storage.uri}: shards of {len(broken)} partitions are missing, or gc is deleting them: "
            f"{', '.join(broken[:_SHOWN])}{more}; build these partitions again (build.py does), then commit again"
        )


def _withdraw_if_late(
    storage: Storage, number: int, snapshot: Snapshot, manifests: Mapping[str, NumberedManifest]
) -> None:
    """Delete a snapshot that is not whole: while its writer was paused, its number was used and deleted by gc."""
    try:
        _check_lasts(storage, snapshot, manifests)
    except HeadraceError as error:
        storage.delete(snapshot_path(number))
        raise AlreadyExistsError(f"{snapshot_path(number)}: this number was used before in {storage.uri}") from error


def _remove_overtaken(storage: Storage) -> None:
    """Delete proposals of writers that were killed or lost the race: a snapshot of their number exists."""
    newest = snapshot_numbers(storage)[-1]
    for number, path in proposals(storage):
        if number <= newest:
            storage.delete(path)


def proposals(storage: Storage) -> list[tuple[int, str]]:
    """Number and path of each proposed snapshot: its writer has not committed it yet, or was killed."""
    paths = [entry.path for entry in storage.list(_SNAPSHOTS) if entry.path.endswith(_PROPOSED_SUFFIX)]
    return [(int(path.removeprefix(_SNAPSHOTS).split("-")[0]), path) for path in paths]


def proposed_snapshots(storage: Storage) -> list[NumberedSnapshot]:
    """All proposed snapshots; see `proposals`."""
    found = []
    for number, path in proposals(storage):
        with contextlib.suppress(NotFoundError):  # committed or withdrawn since
            found.append(NumberedSnapshot(number, read_sound(storage, path, Snapshot.from_json)))
    return found


def mend_sizes(storage: Storage, table: ShardTable) -> bool:
    """Write `sizes.json` from the table of shards, unless it is equal. Returns whether it was written."""
    wanted = json_bytes(dict(zip(table.names(), table.num_samples.tolist(), strict=True)))
    try:
        if storage.read("sizes.json") == wanted:
            return False
    except NotFoundError:
        pass
    storage.write("sizes.json", wanted)
    return True


def _mend_table(storage: Storage, snapshot: Snapshot, table: ShardTable) -> None:
    """Write the table of a snapshot again if it is missing or damaged; `table` has the snapshot's fingerprint."""
    try:
        read_table(storage, snapshot)
    except (NotFoundError, FormatError):
        storage.write(_SNAPSHOTS + snapshot.table, table.to_bytes())


def _same_state(old: Snapshot, new: Snapshot) -> bool:
    return (old.fingerprint, old.catalog, old.manifests, old.origin) == (
        new.fingerprint,
        new.catalog,
        new.manifests,
        new.origin,
    )
