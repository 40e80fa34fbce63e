"""Reads snapshots: numbered states of a whole shard folder. `commits` writes them.

A snapshot is a small JSON file, the root, in `snapshots/`. It names the manifest of every partition, and the parts of
the table of all shards: binary files beside it, which later snapshots share as long as nothing in them changes. So a
million shards open in well under a second, and a commit writes what changed.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.errors import FormatError, NotFoundError
from headrace.format import tables
from headrace.format.manifests.manifests import check_partition, numbered_entries, numbered_files
from headrace.format.parsed_once import read_once
from headrace.format.snapshots.shard_table import ROW_BYTES, ShardTable, joined_table
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json
from headrace.stores.concurrent_requests import map_on_threads
from headrace.stores.refetch import is_local, read_sound
from headrace.stores.storage import Storage

SNAPSHOTS = "snapshots/"
PROPOSED_SUFFIX = ".proposed"
AUDIO_SNAPSHOT = "audio_snapshot"
"""The field of `Snapshot.origin` with the number of the audio snapshot."""
_FETCHES = 16
_UNCHECKED_SHARDS = 1 << 20


@dataclass(frozen=True, slots=True)
class SplitTotals:
    """Totals of one split of a snapshot."""

    num_shards: int
    num_samples: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FrozenPartition:
    """Entry of one partition in a snapshot: enough to plan and to commit without reading its manifest.

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

    @property
    def digest(self) -> str:
        """A digest (hex) that differs between snapshots that differ. With many partitions, `to_json` takes longer."""
        manifests = {name: (frozen.number, frozen.digest) for name, frozen in self.partitions.items()}
        parts = [part.sha256 for part in self.parts]
        said = [self.catalog, self.fingerprint, manifests, parts, self.partitions_per_part, self.origin]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def to_json(self) -> bytes:
        """The bytes of the file; equal snapshots give equal bytes."""
        return versioned_bytes("headrace_snapshot", asdict(self))

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "Snapshot":
        """Parse a snapshot.

        Raises:
            FormatError: not a snapshot, damaged, or of a newer format.
        """
        if blob.startswith(b'{\n "headrace_view"'):
            raise FormatError(f"{name}: a snapshot of a view, which has no shards: name the audio, and pass view=…")
        content = versioned_json(blob, name, "headrace_snapshot")
        try:
            found = typed(cls, content)
            for partition in (*found.partitions, *(part.first for part in found.parts)):
                check_partition(partition)
            if found.origin and AUDIO_SNAPSHOT in found.origin:
                typed(int, found.origin[AUDIO_SNAPSHOT])
        except ValueError as error:
            raise FormatError(f"{name}: an incomplete snapshot ({error}); {tables.WAY_OUT}") from error
        return found


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
    num_shards = sum(part.num_shards for part in snapshot.parts)
    if num_shards > _UNCHECKED_SHARDS:  # this many rows are not allocated before their files are known to be there
        there = sum(storage.size(part.path) for part in snapshot.parts)
        if num_shards * ROW_BYTES > there:
            raise FormatError(
                f"{storage.uri}: a snapshot counts {num_shards} shards, its table has {there} bytes; {tables.WAY_OUT}"
            )
    return joined_table(_each_part(storage, snapshot.parts), num_shards)


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


def has_parts(storage: Storage, snapshot: Snapshot) -> bool:
    """Whether all parts of a snapshot's table of shards exist in their size. Lists the folder, and reads nothing."""
    sizes = {entry.path: entry.num_bytes for entry in storage.list(SNAPSHOTS)}
    return all(sizes.get(part.path) == part.num_bytes for part in snapshot.parts)


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
    for start in range(0, len(parts), _FETCHES):
        yield from map_on_threads(lambda part: read_part(storage, part), parts[start : start + _FETCHES], "parts")


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
