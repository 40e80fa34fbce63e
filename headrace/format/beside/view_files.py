"""Reads and commits the files of views (`views`): snapshots, totals of shards, and counts of samples."""

import contextlib
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import checksums
from headrace.errors import AlreadyExistsError, EmptyViewError, FormatError, IntegrityError, NotFoundError
from headrace.format import tables
from headrace.format.beside.views import (
    ColumnsOrigin,
    CountArray,
    NumberedView,
    PartitionCounts,
    ShardTotals,
    ViewDefinition,
    ViewFile,
    ViewSnapshot,
    ViewTotals,
    view_fingerprint,
)
from headrace.format.shards.condemned import condemned_paths
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import SNAPSHOTS, NumberedSnapshot, snapshot_numbers, snapshot_path
from headrace.stores.refetch import read_sound, until_sound
from headrace.stores.storage import Storage

TOTALS_SUFFIX = ".totals"


def read_view(storage: Storage, number: int | None = None) -> NumberedView:
    """Snapshot `number` of a view, or the newest one for None.

    Raises:
        NotFoundError: it does not exist; the message lists those that do.
        FormatError: it is damaged, or the folder is not a view.
    """
    wanted = number
    if wanted is None:
        numbers = snapshot_numbers(storage)
        if not numbers:
            raise NotFoundError(f"{storage.uri}: no snapshot of a view yet; build the view first")
        wanted = numbers[-1]
    try:
        return NumberedView(wanted, read_sound(storage, snapshot_path(wanted), _parsed))
    except NotFoundError as error:
        there = snapshot_numbers(storage)
        raise NotFoundError(
            f"{storage.uri}: snapshot {wanted} of the view is not there (there are {there}); was it removed by gc?"
        ) from error


def _parsed(blob: bytes, name: str) -> ViewSnapshot:
    try:
        return ViewSnapshot.from_json(blob, name)
    except FormatError as error:
        raise FormatError(f"{error}. A view can be made again: delete this file, and build") from error


def read_totals(storage: Storage, snapshot: ViewSnapshot) -> ShardTotals:
    """The totals of a view's shards.

    Raises:
        FormatError: the file is damaged, or does not have one row for each shard.
        NotFoundError: the file does not exist.
    """

    def parse(blob: bytes, name: str) -> ShardTotals:
        if hashlib.sha256(blob).hexdigest() != snapshot.totals.sha256:
            raise FormatError(f"{name}: does not have the digest in its snapshot; {tables.WAY_OUT}")
        found = ShardTotals.from_bytes(blob, name)
        if not len(found.totals) == len(found.crc32) == snapshot.num_shards:
            raise FormatError(f"{name}: {snapshot.num_shards} shards expected, {len(found.totals)} found")
        return found

    return read_sound(storage, snapshot.totals.path, parse)


def read_counts(storage: Storage, file: ViewFile) -> bytes:
    """The whole file of counts of a partition, with the digest in its snapshot. Raises `FormatError`."""

    def parse(blob: bytes, name: str) -> bytes:
        if hashlib.sha256(blob).hexdigest() != file.sha256:
            raise FormatError(f"{name}: does not have the digest in its snapshot; {tables.WAY_OUT}")
        return blob

    return read_sound(storage, file.path, parse)


@dataclass(frozen=True, slots=True)
class CountsRange:
    """Place of the counts of one shard, and their checksum.

    Attributes:
        file: the file of its partition.
        num_after: bytes of the file from the first count of the shard on.
        num_samples: samples of the shard.
        crc32: checksum of its counts.
        dtype: dtype of the counts.
    """

    file: ViewFile
    num_after: int
    num_samples: int
    crc32: int
    dtype: np.dtype[np.unsignedinteger[Any]] = np.dtype("<u1")  # noqa: RUF009 - immutable

    @property
    def span(self) -> tuple[int, int]:
        """The half-open range of bytes in the file."""
        start = self.file.num_bytes - self.num_after
        return start, start + self.num_samples * self.dtype.itemsize

    def parsed(self, blob: bytes, name: str) -> CountArray:
        """The counts, `dtype` (n,). Raises `IntegrityError` if the bytes do not have their checksum."""
        if len(blob) != self.num_samples * self.dtype.itemsize or checksums.crc32(blob) != self.crc32:
            start, stop = self.span
            raise IntegrityError(
                f"{name}, bytes {start}..{stop}: the counts of a shard do not have the CRC-32 {self.crc32:08x}; "
                f"{tables.WAY_OUT}"
            )
        return np.frombuffer(blob, self.dtype)


def read_counts_of_shard(storage: Storage, wanted: CountsRange) -> CountArray:
    """The counts of the samples of one shard, read alone.

    Raises:
        IntegrityError: they are damaged, also after retries.
        NotFoundError: the file does not exist.
    """
    name = f"{storage.uri}/{wanted.file.path}"

    def read(source: Storage) -> CountArray:
        return wanted.parsed(source.read_ranges(wanted.file.path, [wanted.span])[0], name)

    return until_sound(read, storage, name)


@dataclass(frozen=True, slots=True)
class ViewOrigin:
    """Sources of a view.

    Attributes:
        definition: what it chooses.
        audio: the audio snapshot.
        table: its table of shards.
        columns: the columns that the definition reads.
    """

    definition: ViewDefinition
    audio: NumberedSnapshot
    table: ShardTable
    columns: tuple[ColumnsOrigin, ...] = ()


def partitions_of(table: ShardTable) -> Iterator[tuple[str, slice]]:
    """Each partition of a table of shards, and its rows, in order."""
    if not len(table):
        return
    changes = np.flatnonzero(np.diff(table.split.astype(np.int64) << 32 | table.bucket)) + 1
    bounds = [0, *changes.tolist(), len(table)]
    for start, stop in pairwise(bounds):
        yield f"{table.splits[table.split[start]]}-{int(table.bucket[start]):04d}", slice(start, stop)


def commit_view(storage: Storage, origin: ViewOrigin, parts: Iterable[PartitionCounts]) -> tuple[NumberedView, bool]:
    """Commit the counts of all partitions as a snapshot of a view, unless the newest is equal.

    Files of counts that have not changed since the newest snapshot are shared with it.

    Args:
        storage: the folder of the view.
        origin: what the view was made from.
        parts: the counts of every partition of the audio snapshot's table, in its order; written one at a time.

    Returns:
        The newest snapshot, and whether it is new.

    Raises:
        AlreadyExistsError: another writer committed meanwhile, or a gc deletes a file of this snapshot: make it again.
        EmptyViewError: there are samples, and the view chooses none of them; nothing is committed.
    """
    numbers = snapshot_numbers(storage)
    newest = read_view(storage, numbers[-1]) if numbers else None
    number = numbers[-1] + 1 if numbers else 1
    known = {} if newest is None else {file.sha256: file for file in newest.snapshot.files}
    writer = _ViewWriter(storage, number, condemned_paths(storage), known)
    snapshot = _written(writer, origin, parts)
    if snapshot.num_samples and not snapshot.num_chosen:
        raise EmptyViewError(
            f"{storage.uri}: the view ({origin.definition}) chooses none of {snapshot.num_samples} samples: check the "
            "condition and the values of its columns"
        )
    if newest is not None and _same(newest.snapshot, snapshot):
        return newest, False
    storage.create(snapshot_path(number), snapshot.to_json())
    doomed = condemned_paths(storage)
    gone = [*missing_files(storage, snapshot), *(file.path for file in snapshot.files if file.path in doomed)]
    if gone or snapshot_numbers(storage)[-1] != number:
        storage.delete(snapshot_path(number))
        raise AlreadyExistsError(
            f"{storage.uri}: gc is deleting {gone[0] if gone else 'older snapshots'} while the view is committed; "
            "build the view again"
        )
    return NumberedView(number, snapshot), True


@dataclass(frozen=True, slots=True)
class _ViewWriter:
    """Writes the files of one snapshot.

    Attributes:
        storage: the folder of the view.
        number: the number of the snapshot.
        doomed: files that a gc may delete.
        known: SHA-256 (hex) → file of the newest snapshot, which no gc deletes.
    """

    storage: Storage
    number: int
    doomed: frozenset[str]
    known: Mapping[str, ViewFile]

    def file(self, stem: str, suffix: str, blob: bytes) -> ViewFile:
        """The file with these bytes: one of the newest snapshot, or a new one."""
        digest = hashlib.sha256(blob).hexdigest()
        if (known := self.known.get(digest)) is not None:
            if not self._is_sound(known):
                self.storage.write(known.path, blob)
            return known
        name = f"{self.number:08d}-{stem}{digest[:12]}{suffix}"
        while SNAPSHOTS + name in self.doomed:
            name = f"{self.number:08d}-{stem}{digest[:12]}-{secrets.token_hex(2)}{suffix}"
        file = ViewFile(name, len(blob), digest)
        self.storage.write(file.path, blob)
        return file

    def _is_sound(self, file: ViewFile) -> bool:
        with contextlib.suppress(NotFoundError, FormatError):
            read_counts(self.storage, file)
            return True
        return False


def _written(writer: _ViewWriter, origin: ViewOrigin, parts: Iterable[PartitionCounts]) -> ViewSnapshot:
    """Write the files of counts and totals; the snapshot that names them."""
    table = origin.table
    found: list[ShardTotals] = []
    counts: dict[str, ViewFile] = {}
    splits = {split: ViewTotals(0, 0, 0) for split in origin.audio.snapshot.splits}
    for (partition, rows), part in zip(partitions_of(table), parts, strict=True):
        _check(part, partition, table.num_samples[rows], origin.definition)
        found.append(part.of_shards())
        chosen, drawn = int(np.count_nonzero(part.counts)), int(part.counts.sum(dtype=np.int64))
        if chosen:
            counts[partition] = writer.file(f"{partition}-", ".counts", part.to_bytes())
        split = partition.rpartition("-")[0]
        before = splits[split]
        splits[split] = ViewTotals(
            before.num_samples + len(part.counts), before.num_chosen + chosen, before.num_drawn + drawn
        )
    totals = ShardTotals(
        np.concatenate([np.zeros(0, np.int32), *(one.totals for one in found)]),
        np.concatenate([np.zeros(0, np.int64), *(one.crc32 for one in found)]),
    )
    return ViewSnapshot(
        definition=origin.definition,
        audio_snapshot=origin.audio.number,
        audio_fingerprint=origin.audio.snapshot.fingerprint,
        columns=origin.columns,
        splits=splits,
        num_shards=len(table),
        totals=writer.file("", TOTALS_SUFFIX, totals.to_bytes()),
        counts=counts,
        fingerprint=view_fingerprint(
            origin.audio.snapshot.fingerprint, {name: file.sha256 for name, file in counts.items()}
        ),
    )


def _check(part: PartitionCounts, partition: str, num_samples: NDArray[np.int32], definition: ViewDefinition) -> None:
    """Counts of a partition that do not fit the table are a fault of the caller."""
    assert part.partition == partition, (part.partition, partition)
    assert part.counts.dtype == definition.dtype
    assert np.array_equal(part.num_samples, num_samples)
    assert len(part.counts) == int(num_samples.sum(dtype=np.int64))


def missing_files(storage: Storage, snapshot: ViewSnapshot) -> Sequence[str]:
    """Files of a snapshot that do not exist in their size."""
    sizes = {entry.path: entry.num_bytes for entry in storage.list(SNAPSHOTS)}
    return [file.path for file in snapshot.files if sizes.get(file.path) != file.num_bytes]


def _same(old: ViewSnapshot, new: ViewSnapshot) -> bool:
    """Whether two snapshots have the same counts and the same origin."""
    return (old.fingerprint, old.definition, old.audio_snapshot, old.columns) == (
        new.fingerprint,
        new.definition,
        new.audio_snapshot,
        new.columns,
    )
