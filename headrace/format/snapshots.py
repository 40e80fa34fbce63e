"""Reads snapshots: numbered states of a whole shard folder. `commits` writes them.

A snapshot is a small JSON file, the root, in `snapshots/`. It names the manifest of every partition, and the parts of
the table of all shards: binary files beside it, which later snapshots share as long as nothing in them changes. So a
million shards open in well under a second, and a commit writes what changed.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from headrace.errors import FormatError, NotFoundError
from headrace.format import tables
from headrace.format.manifests import (
    ShardEntry,
    numbered_entries,
    numbered_files,
    parsed_name,
    shard_name,
    versioned_bytes,
    versioned_json,
)
from headrace.format.parsed_once import read_once
from headrace.stores.refetch import is_local, read_sound
from headrace.stores.storage import Storage

FORMAT_VERSION = 1
SNAPSHOTS = "snapshots/"
PROPOSED_SUFFIX = ".proposed"
_FETCHES = 16


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
        splits, prefix = self.splits, self.prefix
        digests = self.digest.tobytes().hex()
        columns = zip(self.split.tolist(), self.bucket.tolist(), self.sequence.tolist(), strict=True)
        return [
            shard_name(prefix, splits[split], bucket, sequence, digests[12 * i : 12 * i + 12])
            for i, (split, bucket, sequence) in enumerate(columns)
        ]

    def rows_of(self, split: str | None) -> slice:
        """The rows of one split (all for None); an empty slice for a split without shards."""
        if split is None:
            return slice(0, len(self))
        if split not in self.splits:
            return slice(0, 0)
        start, stop = np.searchsorted(self.split, [self.splits.index(split), self.splits.index(split) + 1])
        return slice(int(start), int(stop))

    def of_bucket(self, bucket: int) -> "ShardTable":
        """The rows of one bucket, in a table of a single split."""
        start, stop = np.searchsorted(self.bucket, [bucket, bucket + 1])
        rows = {column: getattr(self, column)[start:stop] for column in TABLE_COLUMNS}
        return ShardTable(self.prefix, self.splits if stop > start else (), **rows)

    def to_bytes(self) -> bytes:
        """The bytes of a `.shards` file; equal tables give equal bytes."""
        metadata = {"headrace_shards": str(FORMAT_VERSION), "prefix": self.prefix, "splits": "\n".join(self.splits)}
        return tables.pack({name: getattr(self, name) for name in TABLE_COLUMNS}, metadata)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ShardTable":
        """Parse a `.shards` file; columns are read-only views of `blob`.

        Raises:
            FormatError: not a table of shards, cut off, or of a newer format.
        """
        return cls._of(*tables.unpack(blob, name), name)

    @classmethod
    def from_verified_bytes(cls, blob: bytes, name: str) -> "ShardTable":
        """The same for bytes whose SHA-256 has been compared."""
        return cls._of(*tables.unpack_verified(blob, name), name)

    @classmethod
    def _of(cls, arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str], name: str) -> "ShardTable":
        if metadata.get("headrace_shards") != str(FORMAT_VERSION):
            raise FormatError(f"{name}: not a table of shards in format {FORMAT_VERSION}, which this version reads")
        splits = tuple(metadata["splits"].split("\n")) if metadata["splits"] else ()
        return cls(metadata["prefix"], splits, **{column: arrays[column] for column in TABLE_COLUMNS})

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


_DIGEST_BYTES = 6
_DTYPES: dict[str, type[np.generic]] = {
    "split": np.uint8,
    "bucket": np.int32,
    "sequence": np.int32,
    "digest": np.uint8,
    "num_samples": np.int32,
    "num_bytes": np.int64,
    "num_frames": np.int64,
}
TABLE_COLUMNS = tuple(_DTYPES)


@dataclass(frozen=True, slots=True)
class SplitTotals:
    """Totals of one split of a snapshot."""

    num_shards: int
    num_samples: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FrozenPartition:
    """What a snapshot holds of one partition: enough to plan and to commit without reading its manifest.

    Attributes:
        number: number of its manifest.
        wanted: see `Manifest.wanted`.
        digest: SHA-256 (hex) of the manifest.
        rows: SHA-256 (hex) of a table of its shards alone; empty without shards.
        num_shards: shards with samples; only these are in the table.
        num_bare: shards without samples: everything planned for them was rejected.
        num_samples: samples of all shards.
        num_bytes: size of the shards with samples.
        seconds: length of all samples.
        num_rejected: rejected recordings or latents (`Manifest.refused`).
    """

    number: int
    wanted: str
    digest: str
    rows: str
    num_shards: int
    num_bare: int
    num_samples: int
    num_bytes: int
    seconds: float
    num_rejected: int


@dataclass(frozen=True, slots=True)
class TablePart:
    """A part of the table of shards: the shards of consecutive buckets of one split.

    Attributes:
        name: its file, beside the snapshot.
        first: the first partition that belongs in it, whether that partition exists or not.
        sha256: digest of the file, hex.
        num_bytes: size of the file.
        num_shards: number of rows.
        sizes_bytes: length of the lines of these shards in `sizes.json`.
        sizes_sha256: digest of these lines, hex.
    """

    name: str
    first: str
    sha256: str
    num_bytes: int
    num_shards: int
    sizes_bytes: int
    sizes_sha256: str

    @property
    def path(self) -> str:
        """The file below the shard folder."""
        return SNAPSHOTS + self.name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state of a shard folder; it never changes.

    Attributes:
        catalog: digest of the catalog from which it was built.
        partitions: partition → its manifest and totals.
        splits: totals by split.
        parts: the parts of the table of shards, in the order of the table.
        partitions_per_part: number of consecutive buckets whose shards share a part.
        fingerprint: SHA-256 (hex) of the shards of all partitions: equal fingerprints mean the same samples in the same
            shards.
        origin: for latents, the audio snapshot they belong to and the encoder; empty for audio.
    """

    catalog: str
    partitions: dict[str, FrozenPartition]
    splits: dict[str, SplitTotals]
    parts: tuple[TablePart, ...]
    partitions_per_part: int
    fingerprint: str
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def manifests(self) -> dict[str, int]:
        """Partition → number of its manifest."""
        return {name: frozen.number for name, frozen in self.partitions.items()}

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
            content["partitions"] = {name: FrozenPartition(**found) for name, found in content["partitions"].items()}
            content["splits"] = {split: SplitTotals(**totals) for split, totals in content["splits"].items()}
            content["parts"] = tuple(TablePart(**part) for part in content["parts"])
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
    return sorted(number for number, _ in numbered_files(storage, SNAPSHOTS))


def snapshot_path(number: int) -> str:
    """File of one numbered snapshot."""
    return f"{SNAPSHOTS}{number:08d}.json"


def read_snapshot(storage: Storage, number: int | None = None) -> NumberedSnapshot:
    """Snapshot `number`, or the newest one for None.

    Raises:
        NotFoundError: it does not exist; the message lists those that do.
    """
    if number is None:
        found = dict(numbered_entries(storage, SNAPSHOTS))
        if not found:
            raise NotFoundError(f"{storage.uri}: no snapshot yet; build the data set first")
        number = max(found)
    else:
        found = {}
    try:
        if number in found:
            return NumberedSnapshot(number, read_once(storage, found[number], Snapshot.from_json))
        return NumberedSnapshot(number, read_sound(storage, snapshot_path(number), Snapshot.from_json))
    except NotFoundError as error:
        there = snapshot_numbers(storage)
        raise NotFoundError(
            f"{storage.uri}: snapshot {number} is not there (there are {there}); was it removed by gc?"
        ) from error


def read_table(storage: Storage, snapshot: Snapshot) -> ShardTable:
    """The table of shards of a snapshot, put together from its parts.

    Raises:
        FormatError: a part is damaged, or its digest is not the one in the snapshot.
        NotFoundError: a part does not exist.
    """
    return joined_table(_each_part(storage, snapshot.parts), sum(part.num_shards for part in snapshot.parts))


def read_part(storage: Storage, part: TablePart) -> ShardTable:
    """One part of a table of shards; the errors are those of `read_table`."""

    def parse(blob: bytes, name: str) -> ShardTable:
        if hashlib.sha256(blob).hexdigest() != part.sha256:
            raise FormatError(
                f"{name}: does not have the digest in its snapshot; `headrace verify` says whether the stored file "
                "itself is damaged; if so, build again: the commit makes it from the manifests"
            )
        return ShardTable.from_verified_bytes(blob, name)

    return read_sound(storage, part.path, parse)


def lost_parts(storage: Storage, snapshot: Snapshot) -> list[TablePart]:
    """The parts of a snapshot's table of shards that are missing or damaged. Reads all parts, one at a time."""
    return [part for part in snapshot.parts if not _is_sound(storage, part)]


def _is_sound(storage: Storage, part: TablePart) -> bool:
    try:
        read_part(storage, part)
    except (FormatError, NotFoundError):
        return False
    return True


def _each_part(storage: Storage, parts: Sequence[TablePart]) -> Iterator[ShardTable]:
    """The parts in order: a local folder's one at a time, a store's with several requests at a time."""
    if is_local(storage) or len(parts) <= 1:
        yield from (read_part(storage, part) for part in parts)
        return
    with ThreadPoolExecutor(min(_FETCHES, len(parts)), "parts") as pool:
        yield from pool.map(lambda part: read_part(storage, part), parts)


def joined_table(parts: Iterable[ShardTable], num_shards: int) -> ShardTable:
    """One table of the rows of several, which are in order.

    Args:
        parts: the tables, each of one split, sorted by split and bucket.
        num_shards: number of rows of all together.
    """
    columns: dict[str, np.ndarray[Any, Any]] = {
        name: np.empty((num_shards, _DIGEST_BYTES) if name == "digest" else num_shards, dtype)
        for name, dtype in _DTYPES.items()
    }
    prefix, splits, filled = "", list[str](), 0
    for part in parts:
        rows = slice(filled, filled + len(part))
        filled = rows.stop
        if filled > num_shards:
            break
        for name, column in columns.items():
            column[rows] = getattr(part, name)
        if len(part):
            prefix = part.prefix
            splits += [split for split in part.splits if split not in splits]
            columns["split"][rows] += splits.index(part.splits[0])
    if filled != num_shards:
        raise FormatError(f"a snapshot counts {num_shards} shards, the parts of its table {filled}; {tables.WAY_OUT}")
    return ShardTable(prefix, tuple(splits), **columns)


def proposals(storage: Storage) -> list[tuple[int, str]]:
    """Number and path of each proposed snapshot: its writer has not committed it yet, or was killed."""
    paths = [entry.path for entry in storage.list(SNAPSHOTS) if entry.path.endswith(PROPOSED_SUFFIX)]
    return [(int(path.removeprefix(SNAPSHOTS).split("-")[0]), path) for path in paths]


def proposed_snapshots(storage: Storage) -> list[NumberedSnapshot]:
    """All proposed snapshots; see `proposals`."""
    found = []
    for number, path in proposals(storage):
        with contextlib.suppress(NotFoundError):  # committed or withdrawn since
            found.append(NumberedSnapshot(number, read_sound(storage, path, Snapshot.from_json)))
    return found
