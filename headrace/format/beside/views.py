"""Describes views: how often each sample of an audio snapshot comes in an epoch.

A view is a folder `views/<name>/` with numbered snapshots. A snapshot names the audio snapshot that it fits, a file of
totals with one number for each shard, and for each partition a file with one count for each sample. `view_files` reads
and commits these files.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import checksums
from headrace.errors import ConfigError, FormatError
from headrace.format import tables
from headrace.format.snapshots.snapshots import SNAPSHOTS
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json

VIEWS = "views"
"""Folder of an output with its views."""

MAX_COUNT = 255
"""Limit of the times that a sample comes in an epoch where counts take one byte."""
MAX_TIMES = 65_535
"""Limit of `times`, with which counts take two bytes."""
CountArray = NDArray[np.uint8] | NDArray[np.uint16]

_MAX_OF_SHARD = 1 << 31
_SNAPSHOT_KEY = "headrace_view"
_TOTALS_KEY = "headrace_totals"
_COUNTS_KEY = "headrace_counts"
_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Balance:
    """Balance of groups of samples.

    Attributes:
        by: the column whose values are the groups, as an expression names it.
        alpha: 1 changes nothing, 0 makes groups equal.
    """

    by: str
    alpha: float


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """Choice of samples by a view. It does not name the data.

    Attributes:
        where: the condition, as the user wrote it; None takes every sample.
        balance: how the groups of these samples are balanced; None takes each once.
        times: how often each of these samples comes, an expression as the user wrote it; not with `balance`.
    """

    where: str | None = None
    balance: Balance | None = None
    times: str | None = None

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The dtype of the counts of such a view."""
        return np.dtype("<u1" if self.times is None else "<u2")

    def content(self) -> dict[str, Any]:
        """The definition as JSON, without `times` if it has none, as before this field existed."""
        return {name: value for name, value in asdict(self).items() if name != "times" or value is not None}

    def __str__(self) -> str:
        """The definition in a line, as in messages and states; equal definitions give equal lines."""
        parts = [] if self.where is None else [f"where {' '.join(self.where.split())}"]
        if self.balance is not None:
            parts.append(f"balance by {self.balance.by} with alpha {self.balance.alpha:g}")
        if self.times is not None:
            parts.append(f"times {' '.join(self.times.split())}")
        return ", ".join(parts) or "every sample once"


@dataclass(frozen=True, slots=True)
class ColumnsOrigin:
    """The columns from which a view was made.

    Attributes:
        set: name of the set.
        snapshot: number of its snapshot.
        fingerprint: fingerprint of that snapshot.
    """

    set: str
    snapshot: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ViewFile:
    """A file that a view snapshot names: its name in `snapshots/`, size, and SHA-256 (hex)."""

    name: str
    num_bytes: int
    sha256: str

    @property
    def path(self) -> str:
        """The file below the folder of the view."""
        return SNAPSHOTS + self.name


@dataclass(frozen=True, slots=True)
class ViewTotals:
    """Totals of one split of a view.

    Attributes:
        num_samples: samples of the audio snapshot.
        num_chosen: samples that come at least once.
        num_drawn: samples of an epoch: the sum of all counts.
    """

    num_samples: int
    num_chosen: int
    num_drawn: int


@dataclass(frozen=True, slots=True)
class ViewSnapshot:
    """One committed state of a view; it never changes.

    Attributes:
        definition: what the view chooses.
        audio_snapshot: number of the audio snapshot that it fits.
        audio_fingerprint: fingerprint of that snapshot.
        columns: the columns that the definition reads.
        splits: totals by split.
        num_shards: rows of the file of totals: shards of the audio snapshot.
        totals: the file of totals.
        counts: partition → its file of counts; partitions without a chosen sample have none.
        fingerprint: SHA-256 (hex); equal fingerprints mean the same counts for the same samples.
    """

    definition: ViewDefinition
    audio_snapshot: int
    audio_fingerprint: str
    columns: tuple[ColumnsOrigin, ...]
    splits: dict[str, ViewTotals]
    num_shards: int
    totals: ViewFile
    counts: dict[str, ViewFile]
    fingerprint: str

    @property
    def files(self) -> tuple[ViewFile, ...]:
        """All files that the snapshot names."""
        return self.totals, *self.counts.values()

    @property
    def num_drawn(self) -> int:
        """Samples of an epoch, over all splits."""
        return sum(split.num_drawn for split in self.splits.values())

    @property
    def num_chosen(self) -> int:
        """Samples that come at least once, over all splits."""
        return sum(split.num_chosen for split in self.splits.values())

    @property
    def num_samples(self) -> int:
        """Samples of the audio snapshot."""
        return sum(split.num_samples for split in self.splits.values())

    def to_json(self) -> bytes:
        """The bytes of the file; equal snapshots give equal bytes."""
        return versioned_bytes(_SNAPSHOT_KEY, asdict(self) | {"definition": self.definition.content()})

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "ViewSnapshot":
        """Parse a view snapshot.

        Raises:
            FormatError: not a view snapshot, damaged, or of a newer format.
        """
        content = versioned_json(blob, name, _SNAPSHOT_KEY)
        try:
            return typed(cls, content)
        except ValueError as error:
            raise FormatError(f"{name}: an incomplete view snapshot ({error}); {tables.WAY_OUT}") from error


@dataclass(frozen=True, slots=True)
class NumberedView:
    """A view snapshot and its number."""

    number: int
    snapshot: ViewSnapshot


@dataclass(frozen=True, slots=True, eq=False)
class ShardTotals:
    """One number for each shard of the audio snapshot, in the order of its table of shards.

    Attributes:
        totals: int32 (n,), the sum of the counts of the shard's samples.
        crc32: int64 (n,), CRC-32 of the counts of the shard's samples.
    """

    totals: NDArray[np.int32]
    crc32: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """The bytes of a `.totals` file."""
        return tables.pack({"totals": self.totals, "crc32": self.crc32}, {_TOTALS_KEY: _VERSION})

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ShardTotals":
        """Parse a `.totals` file whose SHA-256 has been compared; arrays are read-only views of `blob`.

        Raises:
            FormatError: not such a file, or of a newer format.
        """
        arrays, metadata = tables.unpack_verified(blob, name)
        if metadata.get(_TOTALS_KEY) != _VERSION:
            raise FormatError(f"{name}: not a file of totals in format {_VERSION}, which this version reads")
        found = tables.checked(arrays, {"totals": (np.int32,), "crc32": (np.int64,)}, name)
        return cls(found["totals"], found["crc32"])


@dataclass(frozen=True, slots=True, eq=False)
class PartitionCounts:
    """The counts of a partition while a view is made.

    Attributes:
        partition: for example `train-0003`.
        num_samples: samples of each shard of the partition in the table of the audio snapshot, in its order.
        counts: uint8 or uint16, one for each sample of these shards, in order.
    """

    partition: str
    num_samples: NDArray[np.integer[Any]]
    counts: CountArray

    def of_shards(self) -> ShardTotals:
        """Totals and checksums of the shards.

        Raises:
            ConfigError: the samples of a shard come 2³¹ times or more.
        """
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.num_samples, dtype=np.int64)])
        totals = np.add.reduceat(self.counts, bounds[:-1], dtype=np.int64)  # no shard of the table is empty
        if totals.max(initial=0) >= _MAX_OF_SHARD:
            raise ConfigError(
                f"{self.partition}: the samples of a shard would come {totals.max()} times in an epoch; at most "
                f"{_MAX_OF_SHARD - 1} are possible: make `times` smaller"
            )
        blob = self.counts.tobytes()
        crc32 = [checksums.crc32(blob[a:b]) for a, b in pairwise((bounds * self.counts.itemsize).tolist())]
        return ShardTotals(totals.astype(np.int32), np.array(crc32, np.int64))

    def to_bytes(self) -> bytes:
        """The bytes of a `.counts` file: the last bytes are the counts themselves."""
        metadata = {_COUNTS_KEY: _VERSION, "partition": self.partition}
        return tables.pack({"counts": self.counts}, metadata)


def counts_of(blob: bytes, name: str) -> CountArray:
    """The counts of a `.counts` file, uint8 or uint16 (n,). Raises `FormatError` if it is damaged or another file."""
    arrays, metadata = tables.unpack(blob, name)
    if metadata.get(_COUNTS_KEY) != _VERSION:
        raise FormatError(f"{name}: not a file of counts in format {_VERSION}, which this version reads")
    dtype = np.uint16 if "counts" in arrays and arrays["counts"].dtype == np.uint16 else np.uint8
    return tables.checked(arrays, {"counts": (dtype,)}, name)["counts"]


def view_fingerprint(audio_fingerprint: str, counts: Mapping[str, str]) -> str:
    """Fingerprint of a view snapshot, hex.

    Args:
        audio_fingerprint: fingerprint of the audio snapshot.
        counts: partition → SHA-256 (hex) of its file of counts.
    """
    lines = [f"audio {audio_fingerprint}\n", *(f"{name} {digest}\n" for name, digest in sorted(counts.items()))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
