"""Samples as columns of numbers: what it takes to copy raw latents out of local files.

Owns when samples of a folder can be read so, and gathering their numbers from the shards' indexes: for a batch that is
merely copied, an object for each sample would cost more than the copy. `rows` does the same for everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

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


Stored: TypeAlias = tuple[LocalShard, int]
"""One sample: its shard and its row there."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Samples of one folder whose latents lie raw in local files, and that hold JSON besides or nothing.

    Attributes:
        samples: (n,), which samples.
        numbers: int64 (n, 7 + 2 * num_fields), rows of `ShardIndex.numbers`.
        json: column of `numbers` at which the byte range of the JSON begins; None without JSON.
        width: D of the latents.
        dtype: name of the latents' dtype.
    """

    samples: Sequence[Stored]
    numbers: Ints
    json: int | None
    width: int
    dtype: str

    @classmethod
    def of(cls, samples: Sequence[Stored]) -> "Columns | None":
        """Gather at least one sample; None if one has no raw latents, or if they do not fit into one array."""
        first = samples[0][0].index
        for index in {id(shard): shard.index for shard, _ in samples}.values():
            if index.fields != first.fields or index.tensor_dtype != first.tensor_dtype:
                return None
        numbers = np.array([shard.index.numbers[row] for shard, row in samples])
        width = int(numbers[0, Column.WIDTH])
        if (numbers[:, Column.START] == ABSENT).any() or (numbers[:, Column.WIDTH] != width).any():
            return None
        json = Column.RANGES + 2 * first.fields.index(JSON_FIELD) if JSON_FIELD in first.fields else None
        return cls(samples, numbers, json, width, first.tensor_dtype)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.numbers)

    def __getitem__(self, column: int) -> Ints:
        """One column of the numbers, int64 (n,)."""
        return self.numbers[:, column]

    def descriptors(self) -> Ints:
        """The open file that each sample lies in, int64 (n,)."""
        return np.array([shard.file.file_descriptor for shard, _ in self.samples], np.int64)

    def rates_hz(self) -> NDArray[np.float64]:
        """Latent frames in a second of each sample, float64 (n,); 0 where unknown."""
        return np.array([shard.index.latent_rate_hz for shard, _ in self.samples], np.float64)

    def keys(self) -> list[str]:
        """Each sample's `__key__`."""
        return [shard.index.key(row) for shard, row in self.samples]

    def json_spans(self) -> tuple[Ints, Ints]:
        """Where each sample's JSON begins, and how many bytes it has, int64 (n,) both; no bytes where it has none."""
        if self.json is None:
            nothing = np.zeros(len(self), np.int64)
            return nothing, nothing
        start, stop = self.numbers[:, self.json], self.numbers[:, self.json + 1]
        return np.maximum(start, 0), stop - start


def is_plain(index: ShardIndex) -> bool:
    """Whether a shard holds latents, with JSON or without, and nothing else."""
    return LATENT_FIELD in index.fields and _FIELDS.issuperset(index.fields)


def local_file(access: ShardAccess, shard: int) -> FileShard | None:
    """A shard's local file; None while there is none, or if it cannot be opened: whoever reads row by row says why."""
    try:
        return access.open_file(shard, patient=False)
    except (IntegrityError, NotFoundError):
        return None
