"""Samples as columns of numbers: what it takes to copy raw latents out of local files.

Owns when samples of a folder can be read so, and gathering their numbers from the shards' indexes: for a batch that is
merely copied, an object for each sample would cost more than the copy. `rows` does the same for everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import IntegrityError, NotFoundError
from headrace.index import ABSENT, Column, ShardIndex
from headrace.indexing import LATENT_FIELD
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.opened import FileShard

JSON_FIELD = "json"
_FIELDS = {LATENT_FIELD, JSON_FIELD}

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LocalShard:
    """A shard that is a local file: its index, and the file."""

    index: ShardIndex
    file: FileShard


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Samples in local files.

    Attributes:
        shards: the shards that they lie in.
        which: int64 (n,), the shard of each, of `shards`.
        rows: int64 (n,), its row there.
    """

    shards: Sequence[LocalShard]
    which: Ints
    rows: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Samples of one folder whose latents lie raw in local files, and that hold JSON besides or nothing.

    Attributes:
        samples: (n,), which samples.
        numbers: int64 (n, 7 + 2 * num_fields), rows of `ShardIndex.numbers`.
        keys: (n,), `__key__` of each.
        json: column of `numbers` at which the byte range of the JSON begins; None without JSON.
        width: D of the latents.
        dtype: name of the latents' dtype.
    """

    samples: Stored
    numbers: Ints
    keys: list[str]
    json: int | None
    width: int
    dtype: str

    @classmethod
    def of(cls, samples: Stored) -> "Columns | None":
        """Gather at least one sample; None if one has no raw latents, or if they do not fit into one array."""
        first = samples.shards[0].index
        for index in (shard.index for shard in samples.shards):
            if index.fields != first.fields or index.tensor_dtype != first.tensor_dtype:
                return None
        numbers, keys = _gathered(samples)
        width = int(numbers[0, Column.WIDTH])
        if (numbers[:, Column.START] == ABSENT).any() or (numbers[:, Column.WIDTH] != width).any():
            return None
        json = Column.RANGES + 2 * first.fields.index(JSON_FIELD) if JSON_FIELD in first.fields else None
        return cls(samples, numbers, keys, json, width, first.tensor_dtype)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.numbers)

    def __getitem__(self, column: int) -> Ints:
        """One column of the numbers, int64 (n,)."""
        return self.numbers[:, column]

    def descriptors(self) -> Ints:
        """The open file that each sample lies in, int64 (n,)."""
        return np.array([shard.file.file_descriptor for shard in self.samples.shards], np.int64)[self.samples.which]

    def shard_bytes(self) -> Ints:
        """Size of the shard that each sample lies in, int64 (n,)."""
        return np.array([shard.index.num_bytes for shard in self.samples.shards], np.int64)[self.samples.which]

    def rates_hz(self) -> NDArray[np.float64]:
        """Latent frames in a second of each sample, float64 (n,); 0 where unknown."""
        return np.array([shard.index.latent_rate_hz for shard in self.samples.shards], np.float64)[self.samples.which]

    def json_spans(self) -> tuple[Ints, Ints]:
        """Where each sample's JSON begins, and how many bytes it has, int64 (n,) both; no bytes where it has none."""
        if self.json is None:
            nothing = np.zeros(len(self), np.int64)
            return nothing, nothing
        start, stop = self.numbers[:, self.json], self.numbers[:, self.json + 1]
        return np.maximum(start, 0), stop - start

    def has_empty_json(self) -> bool:
        """Whether some sample has a JSON of no bytes, which is no JSON."""
        if self.json is None:
            return False
        start, stop = self.numbers[:, self.json], self.numbers[:, self.json + 1]
        return bool(((start == stop) & (start >= 0)).any())


def _gathered(samples: Stored) -> tuple[Ints, list[str]]:
    """`ShardIndex.numbers` and key of each sample, taken from one shard after the other."""
    order = np.argsort(samples.which, kind="stable")
    rows = samples.rows[order]
    ends = np.bincount(samples.which, minlength=len(samples.shards)).cumsum().tolist()
    listed, start = rows.tolist(), 0
    taken: list[Ints] = []
    names: list[str] = []
    for shard, end in zip(samples.shards, ends, strict=True):
        taken.append(shard.index.numbers.take(rows[start:end], axis=0))
        names += shard.index.keys_of(listed[start:end])
        start = end
    stacked = np.concatenate(taken)
    numbers = np.empty_like(stacked)
    numbers[order] = stacked
    keys = [""] * len(names)
    for place, name in zip(order.tolist(), names, strict=True):
        keys[place] = name
    return numbers, keys


def is_plain(index: ShardIndex) -> bool:
    """Whether a shard holds latents, with JSON or without, and nothing else."""
    return LATENT_FIELD in index.fields and _FIELDS.issuperset(index.fields)


def local_file(access: ShardAccess, shard: int) -> FileShard | None:
    """A shard's local file; None while there is none, or if it cannot be opened: whoever reads row by row says why."""
    try:
        return access.open_file(shard, patient=False)
    except (IntegrityError, NotFoundError):
        return None
