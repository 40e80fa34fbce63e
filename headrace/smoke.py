"""The proof that a training loader can read a data set: every sample of a snapshot, through worker processes.

Owns what is compared (the samples that arrive against the shards' indexes) and the verdicts. Reading is
`headrace.webdataset`'s business; nothing here knows Dagster.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from headrace.audit import read_index
from headrace.config import LoaderConfig
from headrace.index import ShardIndex
from headrace.snapshots import ShardTable
from headrace.storage import Storage

if TYPE_CHECKING:
    import torch

_SHOWN = 5

VERDICTS = {
    "every_key_once": "every sample of the snapshot arrives exactly once, and nothing else does",
    "counts_match_sizes": "each shard gives as many samples as sizes.json says",
    "shapes_and_lengths": "every sample has the length, channels, rate or dimension that its index says",
    "finite_values": "all values are finite numbers; audio lies in [-1, 1]",
    "result_table": "the table of results has the columns and ranges that it should have (pandera)",
}
"""What a smoke test says, by name."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the indexes of a snapshot promise, one entry per sample, sorted by key hash.

    Attributes:
        hashes: uint64 (n,), 64 bits of each key's BLAKE2b: a billion keys need 8 GB, not 100.
        shard: int32 (n,), row of the snapshot's table.
        num_frames: int64 (n,), PCM or latent frames.
        width: int64 (n,), channels, or D of latents.
        sample_rate_hz: int32 (n,), 0 for latents.
    """

    hashes: np.ndarray[Any, np.dtype[np.uint64]]
    shard: np.ndarray[Any, np.dtype[np.int32]]
    num_frames: np.ndarray[Any, np.dtype[np.int64]]
    width: np.ndarray[Any, np.dtype[np.int64]]
    sample_rate_hz: np.ndarray[Any, np.dtype[np.int32]]

    @property
    def is_mixed(self) -> bool:
        """Whether samples differ in channels or rate, so that they cannot share a batch."""
        return len(np.unique(self.width)) > 1 or len(np.unique(self.sample_rate_hz)) > 1

    def find(self, key: str) -> int | None:
        """The entry of a key."""
        at = int(np.searchsorted(self.hashes, _hash(key)))
        return at if at < len(self.hashes) and self.hashes[at] == _hash(key) else None


_NOTHING = Expected(
    np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32)
)


@dataclass(frozen=True, slots=True)
class Arrived:
    """One sample as the loader gave it.

    Attributes:
        key: its key.
        num_frames: PCM or latent frames.
        width: channels, or D of latents.
        sample_rate_hz: 0 for latents.
        is_sound: whether every value is finite, and in [-1, 1] for audio.
    """

    key: str
    num_frames: int
    width: int
    sample_rate_hz: int
    is_sound: bool


@dataclass(slots=True)
class SmokeResult:
    """What reading a snapshot came to.

    Attributes:
        table: one row per shard, see `shard_rows`.
        faults: verdict → what is wrong, in words; empty lists when all is well.
        num_samples: samples that arrived.
        seconds: how long it took.
        seconds_to_first: until the first sample arrived, workers started.
    """

    table: pl.DataFrame
    faults: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in VERDICTS})
    num_samples: int = 0
    seconds: float = 0.0
    seconds_to_first: float = 0.0


def smoke_test(storage: Storage, table: ShardTable, loader: LoaderConfig) -> SmokeResult:
    """Read every sample of a shard folder's newest snapshot as a training job would, and compare.

    Samples are read one by one, not in batches, where they differ in channels or rate. An empty snapshot is sound.

    Args:
        storage: the shard folder.
        table: the table of its newest snapshot.
        loader: worker processes, shuffle buffer, batch size.
    """
    expected = read_expected(storage, table)
    seen = np.zeros(len(expected.hashes), np.int64)
    result = SmokeResult(pl.DataFrame())
    began = time.perf_counter()
    for sample in _arrivals(storage, expected, loader):
        result.seconds_to_first = result.seconds_to_first or time.perf_counter() - began
        result.num_samples += 1
        _compare(sample, expected, seen, result.faults)
    result.seconds = time.perf_counter() - began
    missing = int((seen == 0).sum())
    twice = int((seen > 1).sum())
    if missing or twice:
        result.faults["every_key_once"].append(f"{missing} samples never arrived, {twice} arrived more than once")
    result.table = shard_rows(table, expected, seen)
    result.faults["counts_match_sizes"] += [
        f"{row['shard']}: {row['samples']} samples arrived, sizes.json says {row['expected_samples']}"
        for row in result.table.filter(pl.col("samples") != pl.col("expected_samples")).to_dicts()
    ]
    result.faults["result_table"] += table_faults(result.table)
    return result


def read_expected(storage: Storage, table: ShardTable) -> Expected:
    """What the indexes of all shards of a snapshot promise."""
    parts = [_promised(read_index(storage, name), row) for row, name in enumerate(table.names())] or [_NOTHING]
    hashes = np.concatenate([part.hashes for part in parts])
    order = np.argsort(hashes, kind="stable")
    return Expected(
        hashes[order],
        np.concatenate([part.shard for part in parts])[order],
        np.concatenate([part.num_frames for part in parts])[order],
        np.concatenate([part.width for part in parts])[order],
        np.concatenate([part.sample_rate_hz for part in parts])[order],
    )


def _promised(index: ShardIndex, row: int) -> Expected:
    """What one shard promises, in the order of its index."""
    hashes = np.array([_hash(index.key(i)) for i in range(len(index))], np.uint64)
    shard = np.full(len(index), row, np.int32)
    if index.tensor_dtype:
        return Expected(hashes, shard, index.tensors[:, 2], index.tensors[:, 3], np.zeros(len(index), np.int32))
    return Expected(hashes, shard, index.num_frames, index.num_channels.astype(np.int64), index.sample_rate_hz)


def shard_rows(table: ShardTable, expected: Expected, seen: np.ndarray[Any, np.dtype[np.int64]]) -> pl.DataFrame:
    """One row per shard: `shard`, `expected_samples`, `samples`, `num_frames`, `num_bytes`."""
    return pl.DataFrame(
        {
            "shard": table.names(),
            "expected_samples": table.num_samples.astype(np.int64),
            "samples": np.bincount(expected.shard, weights=seen, minlength=len(table)).astype(np.int64),
            "num_frames": table.num_frames,
            "num_bytes": table.num_bytes,
        },
        schema={
            "shard": pl.String,
            **dict.fromkeys(("expected_samples", "samples", "num_frames", "num_bytes"), pl.Int64),
        },
    )


def table_faults(table: pl.DataFrame) -> list[str]:
    """What pandera finds wrong with a table of results."""
    import pandera.polars as pa  # noqa: PLC0415 - it brings pandas: a code server starts without both
    from pandera.errors import SchemaErrors  # noqa: PLC0415

    positive = pa.Column(pl.Int64, pa.Check.gt(0))
    schema = pa.DataFrameSchema(
        {
            "shard": pa.Column(pl.String, pa.Check.str_endswith(".tar"), unique=True),
            "expected_samples": positive,
            "samples": pa.Column(pl.Int64, pa.Check.ge(0)),
            "num_frames": positive,
            "num_bytes": positive,
        },
        strict=True,
    )
    try:
        schema.validate(table, lazy=True)
    except SchemaErrors as error:
        return [str(case) for case in error.failure_cases.head(_SHOWN).to_dicts()]
    return []


def _hash(key: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))


def _compare(
    sample: Arrived, expected: Expected, seen: np.ndarray[Any, np.dtype[np.int64]], faults: Mapping[str, list[str]]
) -> None:
    """Count a sample and note what is wrong with it; of each kind of fault the first few are kept."""
    at = expected.find(sample.key)
    if at is None:
        _note(faults["every_key_once"], f"{sample.key}: arrived, and is in no index of the snapshot")
        return
    seen[at] += 1
    found = (sample.num_frames, sample.width, sample.sample_rate_hz)
    wanted = (int(expected.num_frames[at]), int(expected.width[at]), int(expected.sample_rate_hz[at]))
    if found != wanted:
        _note(
            faults["shapes_and_lengths"],
            f"{sample.key}: (frames, width, rate) {found} arrived, the index says {wanted}",
        )
    if not sample.is_sound:
        _note(faults["finite_values"], f"{sample.key}: values that are not finite, or audio outside [-1, 1]")


def _note(faults: list[str], fault: str) -> None:
    if len(faults) < _SHOWN:
        faults.append(fault)


def _arrivals(storage: Storage, expected: Expected, loader: LoaderConfig) -> Iterator[Arrived]:
    """All samples of the folder, in whatever order the loader gives them."""
    if not len(expected.hashes):
        return
    from headrace.webdataset import webdataset_loader  # noqa: PLC0415 - torch comes in only here

    batches = webdataset_loader(
        storage.uri,
        batch_size=None if expected.is_mixed else loader.batch_size,
        num_workers=loader.num_workers,
        shuffle_buffer=loader.shuffle_buffer,
        prefetch_factor=loader.prefetch_factor,
    )
    for batch in batches:
        yield from [_single(batch)] if expected.is_mixed else _rows(batch)


def _single(sample: Mapping[str, Any]) -> Arrived:
    key = sample["__key__"]
    if "audio" in sample:
        audio = sample["audio"]
        return Arrived(key, audio.shape[1], audio.shape[0], int(sample["sample_rate"]), _is_sound(audio, limit=1.0))
    hidden = sample["encoder_hidden"]
    return Arrived(key, int(sample["encoder_length"]), hidden.shape[1], 0, _is_sound(hidden))


def _rows(batch: Mapping[str, Any]) -> Iterator[Arrived]:
    keys: Sequence[str] = batch["keys"]
    for row, key in enumerate(keys):
        if "audio" in batch:
            num_frames = int(batch["num_frames"][row])
            audio = batch["audio"][row, :, :num_frames]
            yield Arrived(key, num_frames, audio.shape[0], int(batch["sample_rate"][row]), _is_sound(audio, limit=1.0))
        else:
            length = int(batch["encoder_length"][row])
            hidden = batch["encoder_hidden"][row, :length]
            yield Arrived(key, length, hidden.shape[1], 0, _is_sound(hidden))


def _is_sound(values: "torch.Tensor", limit: float | None = None) -> bool:
    """Whether all values are finite and no larger than `limit`. NaN fails every comparison."""
    if limit is not None:
        return bool((values.abs() <= limit).all())
    return bool(values.isfinite().all())
