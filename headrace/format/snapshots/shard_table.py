"""The table of shards: all shards of a snapshot, or of a part of it, as columns.

`snapshots` reads the parts of a snapshot's table, `snapshot_draft` makes new ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import FormatError
from headrace.format import tables
from headrace.format.manifests.manifests import ShardEntry, is_shard_name, parsed_name, shard_name
from headrace.format.tars.tar_names import TAR_SUFFIX

FORMAT_VERSION = 1


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
        suffix: last part of every name: `.tar`, or `.columns`.
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
    suffix: str = TAR_SUFFIX

    def __len__(self) -> int:
        """Number of shards."""
        return len(self.split)

    def name(self, i: int) -> str:
        """File name of shard `i`."""
        split, digest = self.splits[self.split[i]], bytes(self.digest[i]).hex()
        return shard_name(self.prefix, split, int(self.bucket[i]), int(self.sequence[i]), digest, self.suffix)

    def names(self) -> list[str]:
        """All file names, in order."""
        splits, prefix = self.splits, self.prefix
        digests = self.digest.tobytes().hex()
        columns = zip(self.split.tolist(), self.bucket.tolist(), self.sequence.tolist(), strict=True)
        return [
            shard_name(prefix, splits[split], bucket, sequence, digests[12 * i : 12 * i + 12], self.suffix)
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
        return ShardTable(self.prefix, self.splits if stop > start else (), **rows, suffix=self.suffix)

    def to_bytes(self) -> bytes:
        """The bytes of a `.shards` file; equal tables give equal bytes."""
        metadata = {"headrace_shards": str(FORMAT_VERSION), "prefix": self.prefix, "splits": "\n".join(self.splits)}
        if self.suffix != TAR_SUFFIX:
            metadata["suffix"] = self.suffix
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
        """Parse a `.shards` file as `from_bytes` does; the SHA-256 of `blob` must have been compared."""
        return cls._of(*tables.unpack_verified(blob, name), name)

    @classmethod
    def _of(cls, arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str], name: str) -> "ShardTable":
        if metadata.get("headrace_shards") != str(FORMAT_VERSION):
            raise FormatError(f"{name}: not a table of shards in format {FORMAT_VERSION}, which this version reads")
        columns = tables.checked(arrays, _FORMS, name)
        splits = tuple(filter(None, metadata.get("splits", "").split("\n")))
        table = cls(metadata.get("prefix", ""), splits, **columns, suffix=metadata.get("suffix", TAR_SUFFIX))
        if (flaw := table.flaw()) is not None:
            raise FormatError(f"{name}: {flaw}; {tables.WAY_OUT}")
        return table

    def flaw(self) -> str | None:
        """Why the rows cannot be those of shards; None for a sound table."""
        if len(self) and (row := int(self.split.argmax())) >= 0 and self.split[row] >= len(self.splits):
            return f"a shard is of split {self.split[row]}, and the table has {len(self.splits)}"
        if len(self) and not is_shard_name(self.name(0)):
            return f"its shards would be called like {self.name(0)!r}"
        for column in ("bucket", "sequence", "num_samples", "num_bytes", "num_frames"):
            if (least := int(getattr(self, column).min(initial=0))) < 0:
                return f"{column} of a shard is {least}"
        return None

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
            suffix=matches[0]["suffix"] if matches else TAR_SUFFIX,
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
_FORMS = {name: (dtype, _DIGEST_BYTES) if name == "digest" else (dtype,) for name, dtype in _DTYPES.items()}
ROW_BYTES = sum(np.dtype(dtype).itemsize for dtype in _DTYPES.values()) + _DIGEST_BYTES - 1
"""Bytes of one row of a table, in memory and in a file."""


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
    prefix, suffix, splits, filled = "", TAR_SUFFIX, list[str](), 0
    for part in parts:
        rows = slice(filled, filled + len(part))
        filled = rows.stop
        if filled > num_shards:
            break
        for name, column in columns.items():
            column[rows] = getattr(part, name)
        if len(part):
            prefix, suffix = part.prefix, part.suffix
            splits += [split for split in part.splits if split not in splits]
            columns["split"][rows] += splits.index(part.splits[0])
    if filled != num_shards:
        raise FormatError(f"a snapshot counts {num_shards} shards, the parts of its table {filled}; {tables.WAY_OUT}")
    return ShardTable(prefix, tuple(splits), **columns, suffix=suffix)
