"""Snapshots: what all partitions of a shard folder hold together, committed by numbered create-if-absent.

Owns the formats of `snapshots/` and `sizes.json`, reading any snapshot and committing the next one from the manifests.
It plans nothing and never touches a shard. A snapshot is a small JSON header and a binary table of shards, so that a
million shards open in well under a second.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from headrace import tables
from headrace.errors import FormatError, NotFoundError
from headrace.manifests import (
    NumberedManifest,
    ShardEntry,
    json_bytes,
    numbered_files,
    parsed_name,
    shard_name,
    split_of,
    versioned_json,
)
from headrace.storage import Storage

FORMAT_VERSION = 1
_SNAPSHOTS = "snapshots/"


@dataclass(frozen=True, slots=True)
class ShardTable:
    """All shards of a snapshot as columns: 35 bytes a shard, so that a million open at once.

    Sorted by split, bucket and sequence number, so that each split is one slice.

    Attributes:
        prefix: what every name begins with (`latent_`, or nothing).
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
        """The `.shards` file. Equal tables give equal bytes."""
        metadata = {"headrace_shards": str(FORMAT_VERSION), "prefix": self.prefix, "splits": "\n".join(self.splits)}
        return tables.pack({name: getattr(self, name) for name in _TABLE_COLUMNS}, metadata)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ShardTable":
        """Read a `.shards` file; columns are read-only views.

        Raises:
            FormatError: not a table of shards, cut off, or of a newer format.
        """
        arrays, metadata = tables.unpack(blob, name)
        if metadata.get("headrace_shards") != str(FORMAT_VERSION):
            raise FormatError(f"{name}: not a table of shards that this version reads ({FORMAT_VERSION})")
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
    """What one split of a snapshot holds."""

    num_shards: int
    num_samples: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state of a shard folder; immutable.

    Attributes:
        catalog: digest of the catalog it came from.
        manifests: partition → number of the manifest that it froze.
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
        """Equal snapshots give equal bytes."""
        return json_bytes({"headrace_snapshot": FORMAT_VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "Snapshot":
        """Read a snapshot.

        Raises:
            FormatError: not a snapshot, or of a newer format.
        """
        content = versioned_json(blob, name, "headrace_snapshot")
        try:
            content["splits"] = {split: SplitTotals(**totals) for split, totals in content["splits"].items()}
            return cls(**content)
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"{name}: not a whole snapshot ({error}); restore it, or remove it and build") from error


@dataclass(frozen=True, slots=True)
class NumberedSnapshot:
    """A snapshot and its number."""

    number: int
    snapshot: Snapshot


def snapshot_numbers(storage: Storage) -> list[int]:
    """Numbers of the snapshots that are there, ascending."""
    return sorted(number for number, _ in numbered_files(storage, _SNAPSHOTS))


def read_snapshot(storage: Storage, number: int | None = None) -> NumberedSnapshot:
    """Snapshot `number`, or the newest.

    Raises:
        NotFoundError: there is none, or not that one; the message lists those that are there.
    """
    numbers = snapshot_numbers(storage) if number is None else [number]
    if not numbers:
        raise NotFoundError(f"{storage.uri}: no snapshot yet; build the data set first")
    path = f"{_SNAPSHOTS}{numbers[-1]:08d}.json"
    try:
        blob = storage.read(path)
    except NotFoundError as error:
        there = snapshot_numbers(storage)
        raise NotFoundError(
            f"{storage.uri}: snapshot {number} is not there (there are {there}); was it removed by gc?"
        ) from error
    return NumberedSnapshot(numbers[-1], Snapshot.from_json(blob, path))


def read_table(storage: Storage, snapshot: Snapshot) -> ShardTable:
    """The table of shards of a snapshot.

    Raises:
        FormatError: its bytes are not those that the snapshot was committed with.
    """
    path = _SNAPSHOTS + snapshot.table
    blob = storage.read(path)
    if hashlib.sha256(blob).hexdigest() != snapshot.fingerprint:
        raise FormatError(f"{path}: does not have the digest that its snapshot names; restore it or build again")
    return ShardTable.from_bytes(blob, path)


def next_snapshot(
    manifests: Mapping[str, NumberedManifest], catalog: str, origin: Mapping[str, Any], number: int
) -> tuple[Snapshot, ShardTable]:
    """The snapshot that these manifests make, to be committed under `number`. Pure."""
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
    storage: Storage, manifests: Mapping[str, NumberedManifest], catalog: str, origin: Mapping[str, Any]
) -> tuple[NumberedSnapshot, bool]:
    """Commit the state that these manifests make, then write `sizes.json`; nothing new is committed for an equal state.

    Returns:
        The newest snapshot, and whether it is new.

    Raises:
        AlreadyExistsError: another writer committed a snapshot meanwhile: read the manifests again and decide again.
    """
    numbers = snapshot_numbers(storage)
    newest = read_snapshot(storage, numbers[-1]) if numbers else None
    number = numbers[-1] + 1 if numbers else 1
    snapshot, table = next_snapshot(manifests, catalog, origin, number)
    if newest is not None and _same_state(newest.snapshot, snapshot):
        _mend_table(storage, newest.snapshot, table)
        mend_sizes(storage, table)
        return newest, False
    storage.write(_SNAPSHOTS + snapshot.table, table.to_bytes())
    storage.create(f"{_SNAPSHOTS}{number:08d}.json", snapshot.to_json())
    mend_sizes(storage, table)
    return NumberedSnapshot(number, snapshot), True


def mend_sizes(storage: Storage, table: ShardTable) -> bool:
    """Make `sizes.json` say what the table says. Returns whether it had to be written."""
    wanted = json_bytes(dict(zip(table.names(), table.num_samples.tolist(), strict=True)))
    try:
        if storage.read("sizes.json") == wanted:
            return False
    except NotFoundError:
        pass
    storage.write("sizes.json", wanted)
    return True


def _mend_table(storage: Storage, snapshot: Snapshot, table: ShardTable) -> None:
    """Write the table of a snapshot again where it was lost or damaged; `table` has the snapshot's fingerprint."""
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
