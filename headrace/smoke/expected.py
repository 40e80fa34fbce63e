"""The samples that a loader must return, according to the shards' indexes, as arrays that are searched by key."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.audio_names import AUDIO_EXTENSIONS
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.smoke.arrivals import width_of
from headrace.stores.storage import Storage


@dataclass(frozen=True, slots=True)
class ExpectedSamples:
    """The expected samples of some shards, one entry per sample, sorted by key hash.

    Samples whose latents were rejected are not included, because a loader does not return them.

    Attributes:
        hashes: uint64 (n,), 64 bits of the BLAKE2b of each key: a billion keys need 8 GB, not 100.
        shard: int32 (n,), row in the table of shards.
        num_frames: int64 (n,), PCM or latent frames.
        width: int64 (n,), channels (`width_of`), or D of latents.
        sample_rate_hz: int32 (n,), 0 for latents.
        is_flac: bool (n,), whether all audio of the sample is FLAC, whose values are in [-1, 1].
        is_drawn: bool (n,), whether a reader draws one of several vectors of the sample, so that two readings differ.
        rejected: int32 (m,), row in the table of shards of each sample whose latents were rejected.
        rejected_hashes: uint64 (m,), sorted hashes of the keys of these samples.
    """

    hashes: np.ndarray[Any, np.dtype[np.uint64]]
    shard: np.ndarray[Any, np.dtype[np.int32]]
    num_frames: np.ndarray[Any, np.dtype[np.int64]]
    width: np.ndarray[Any, np.dtype[np.int64]]
    sample_rate_hz: np.ndarray[Any, np.dtype[np.int32]]
    is_flac: np.ndarray[Any, np.dtype[np.bool_]]
    is_drawn: np.ndarray[Any, np.dtype[np.bool_]]
    rejected: np.ndarray[Any, np.dtype[np.int32]]
    rejected_hashes: np.ndarray[Any, np.dtype[np.uint64]]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.hashes)

    @property
    def is_mixed(self) -> bool:
        """Whether samples differ in channels or rate, so that they cannot share a batch."""
        return len(np.unique(self.width)) > 1 or len(np.unique(self.sample_rate_hz)) > 1

    def num_indexed(self, num_shards: int) -> list[int]:
        """Number of samples in the index of each shard."""
        rows = np.concatenate([self.shard, self.rejected])
        return list(np.bincount(rows, minlength=num_shards).tolist())

    def find(self, key: str) -> int | None:
        """Number of the entry of a key; None if there is no such sample."""
        return _found(self.hashes, key)

    def is_rejected(self, key: str) -> bool:
        """Whether the latents of a key were rejected."""
        return _found(self.rejected_hashes, key) is not None


def _found(hashes: np.ndarray[Any, np.dtype[np.uint64]], key: str) -> int | None:
    at = int(np.searchsorted(hashes, _hash(key)))
    return at if at < len(hashes) and hashes[at] == _hash(key) else None


_NO_HASHES = np.zeros(0, np.uint64)
_NO_INT32 = np.zeros(0, np.int32)
_NO_INT64 = np.zeros(0, np.int64)
_NO_FLAGS = np.zeros(0, np.bool_)
_NOTHING = ExpectedSamples(
    _NO_HASHES,
    _NO_INT32,
    _NO_INT64,
    _NO_INT64,
    _NO_INT32,
    _NO_FLAGS,
    _NO_FLAGS,
    rejected=_NO_INT32,
    rejected_hashes=_NO_HASHES,
)


def read_expected(storage: Storage, table: ShardTable) -> ExpectedSamples:
    """Read the expected samples of all shards of a table from their indexes."""
    parts = [_expected_of(read_index(storage, name), row) for row, name in enumerate(table.names())] or [_NOTHING]
    hashes = np.concatenate([part.hashes for part in parts])
    order = np.argsort(hashes, kind="stable")
    return ExpectedSamples(
        hashes[order],
        np.concatenate([part.shard for part in parts])[order],
        np.concatenate([part.num_frames for part in parts])[order],
        np.concatenate([part.width for part in parts])[order],
        np.concatenate([part.sample_rate_hz for part in parts])[order],
        np.concatenate([part.is_flac for part in parts])[order],
        np.concatenate([part.is_drawn for part in parts])[order],
        np.concatenate([part.rejected for part in parts]),
        np.sort(np.concatenate([part.rejected_hashes for part in parts])),
    )


def _expected_of(index: ShardIndex, row: int) -> ExpectedSamples:
    """The expected samples of one shard, in the order of its index."""
    keys, rejected = index.keys(), index.rejections
    hashes = np.array([_hash(key) for key in keys], np.uint64)
    kept = np.array([key not in rejected for key in keys], np.bool_)
    shard = np.full(len(index), row, np.int32)
    lengths, widths, rates = index.num_frames, _widths_of(index), index.sample_rate_hz
    drawn: np.ndarray[Any, np.dtype[np.bool_]] = np.zeros(len(index), np.bool_)
    if index.outputs:
        are_choices = np.array([output.is_choice for output in index.outputs])
        drawn = np.asarray((index.tensors[:, are_choices, 2] > 1).any(axis=1))
        lengths, rates = index.tensors[:, 0, 2], np.zeros(len(index), np.int32)
        lengths = np.minimum(lengths, 1) if are_choices[0] else lengths
        widths = np.array([width_of(of_outputs) for of_outputs in index.tensors[..., 3].tolist()], np.int64)
    flags = _are_flac(index)[kept], drawn[kept]
    return ExpectedSamples(
        hashes[kept], shard[kept], lengths[kept], widths[kept], rates[kept], *flags, shard[~kept], hashes[~kept]
    )


def _widths_of(index: ShardIndex) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Width (`width_of`) of each sample of audio."""
    if index.audio_facts is None:
        return index.num_channels.astype(np.int64)
    return np.array([width_of(channels) for channels in index.audio_facts[..., 1].tolist()], np.int64)


def _are_flac(index: ShardIndex) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether a sample has no audio of another extension."""
    names = [name.rpartition(".")[2] for name in index.fields]
    is_other = [name in AUDIO_EXTENSIONS and name != "flac" for name in names]
    return np.asarray((index.ranges[:, is_other, 0] == ABSENT).all(axis=1))


def _hash(key: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))
