"""The proof that training loaders can read a data set: every sample of a snapshot, through worker processes.

Read twice: by `StreamingDataset` as a job of two ranks, and by the plain webdataset pipeline. Owns what is compared
(the samples that arrive against the shards' indexes) and the verdicts; nothing here knows Dagster. A large data set is
judged by shards drawn with its fingerprint as seed: others for every snapshot, the same ones for the same snapshot.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from headrace.audit import read_index
from headrace.config import LoaderConfig
from headrace.errors import HeadraceError
from headrace.index import ShardIndex
from headrace.smoke_arrivals import Arrived, arrived_batch, arrived_sample
from headrace.smoke_streams import RankStreams, child_processes, leftover_processes
from headrace.smoke_verdicts import VERDICTS
from headrace.snapshots import ShardTable
from headrace.storage import Storage

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a smoke test reads; of more, whole shards are drawn until a bound is met."""

    num_samples: int = 20_000
    num_bytes: int = 4_000_000_000


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


@dataclass(slots=True)
class SmokeResult:
    """What reading a snapshot came to.

    Attributes:
        table: one row per shard, see `shard_rows`.
        faults: verdict → what is wrong, in words; empty lists when all is well.
        num_samples: samples that the plain pipeline gave.
        num_streamed: samples that `StreamingDataset` gave.
        seconds: how long the plain pipeline took.
        seconds_to_first: until its first sample arrived, workers started.
        stream_seconds: how long both ranks took.
        stream_seconds_to_first: until their first batch arrived.
        is_whole: whether all shards were read, and not a draw of them.
    """

    table: pl.DataFrame
    faults: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in VERDICTS})
    num_samples: int = 0
    num_streamed: int = 0
    seconds: float = 0.0
    seconds_to_first: float = 0.0
    stream_seconds: float = 0.0
    stream_seconds_to_first: float = 0.0
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class _Seen:
    """How often each expected sample arrived, and whether something was wrong with it; int64 (n,) each."""

    times: np.ndarray[Any, np.dtype[np.int64]]
    wrong: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def none_of(cls, expected: Expected) -> "_Seen":
        return cls(np.zeros(len(expected.hashes), np.int64), np.zeros(len(expected.hashes), np.int64))


def smoke_test(
    storage: Storage,
    table: ShardTable,
    loader: LoaderConfig,
    snapshot: int | None = None,
    budget: Budget | None = None,
) -> SmokeResult:
    """Read a shard folder's snapshot as training jobs would, and compare.

    Batches hold one sample where samples differ in channels or rate. An empty snapshot is sound.

    Args:
        storage: the shard folder.
        table: the table of the snapshot.
        loader: worker processes, shuffle buffer, batch size.
        snapshot: its number; None for the newest.
        budget: how much to read.
    """
    chosen = drawn_shards(table, budget or Budget())
    expected = read_expected(storage, chosen)
    result = SmokeResult(pl.DataFrame(), is_whole=len(chosen) == len(table))
    processes, files = child_processes(), _files(storage, result)
    judge = _Judge(expected, chosen.names(), result.faults)
    plain, streamed = _Seen.none_of(expected), _Seen.none_of(expected)
    if len(expected.hashes):
        source = _Source(storage.uri, None if result.is_whole else chosen.names(), snapshot)
        times = judge.read("plain", lambda: _arrivals(source, expected, loader), plain)
        result.num_samples, result.seconds, result.seconds_to_first = times
        streams = RankStreams(source.remote, source.pinned, loader, 1 if expected.is_mixed else loader.batch_size)
        times = judge.read("streaming", streams.arrivals, streamed)
        result.num_streamed, result.stream_seconds, result.stream_seconds_to_first = times
        result.faults["equal_batches"] += streams.batch_faults()
        result.faults["resumes_exactly"] += streams.resume_faults()
        streams.close()
    result.faults["leaves_nothing"] += leftover_processes(processes)
    new = sorted(_files(storage, result) - files)[:_SHOWN]
    result.faults["leaves_nothing"] += [f"{path}: this file was not there before" for path in new]
    result.table = shard_rows(chosen, expected, plain, streamed)
    result.faults["counts_match_sizes"] += _count_faults(result.table)
    result.faults["result_table"] += table_faults(result.table)
    return result


def drawn_shards(table: ShardTable, budget: Budget) -> ShardTable:
    """The table itself where it is within the budget; otherwise shards drawn from it, in its order. Pure."""
    if table.num_samples.sum() <= budget.num_samples and table.num_bytes.sum() <= budget.num_bytes:
        return table
    seed = int.from_bytes(hashlib.sha256(table.to_bytes()).digest()[:8], "little")
    order = np.random.default_rng(seed).permutation(len(table))
    is_within = (np.cumsum(table.num_samples[order]) <= budget.num_samples) & (
        np.cumsum(table.num_bytes[order]) <= budget.num_bytes
    )
    rows = np.sort(order[: max(1, int(is_within.sum()))])
    columns = ("split", "bucket", "sequence", "digest", "num_samples", "num_bytes", "num_frames")
    return replace(table, **{name: getattr(table, name)[rows] for name in columns})


@dataclass(frozen=True, slots=True)
class _Source:
    """What both loaders are told to read."""

    uri: str
    shards: Sequence[str] | None
    snapshot: int | None

    @property
    def pinned(self) -> int | None:
        """The snapshot, where the whole folder is read."""
        return self.snapshot if self.shards is None else None

    @property
    def urls(self) -> str | list[str]:
        """For the plain pipeline."""
        return self.uri if self.shards is None else [f"{self.uri}/{name}" for name in self.shards]

    @property
    def remote(self) -> str:
        """For `StreamingDataset`: the folder, or a brace pattern."""
        if self.shards is None:
            return self.uri
        return f"{self.uri}/{self.shards[0]}" if len(self.shards) == 1 else f"{self.uri}/{{{','.join(self.shards)}}}"


@dataclass(frozen=True, slots=True)
class _Judge:
    """Compares what arrives with what the indexes promise, and notes the first faults of each kind."""

    expected: Expected
    shards: Sequence[str]
    faults: Mapping[str, list[str]]

    def read(self, reader: str, arrivals: Callable[[], Iterator[Arrived]], seen: _Seen) -> tuple[int, float, float]:
        """Read to the end. Returns samples, seconds, and seconds to the first sample."""
        began = time.perf_counter()
        num_samples, first_seconds = 0, 0.0
        try:
            for sample in arrivals():
                first_seconds = first_seconds or time.perf_counter() - began
                num_samples += 1
                self._compare(reader, sample, seen)
        except HeadraceError as error:  # names shard and key
            _note(self.faults["every_key_once"], f"{reader}: reading ended with {error}")
        self._count(reader, seen)
        return num_samples, time.perf_counter() - began, first_seconds

    def _compare(self, reader: str, sample: Arrived, seen: _Seen) -> None:
        expected, at = self.expected, self.expected.find(sample.key)
        if at is None:
            _note(
                self.faults["every_key_once"],
                f"{reader}: {sample.key} arrived, and is in no index of what was to be read",
            )
            return
        seen.times[at] += 1
        found = (sample.num_frames, sample.width, sample.sample_rate_hz)
        wanted = (int(expected.num_frames[at]), int(expected.width[at]), int(expected.sample_rate_hz[at]))
        wrong = {
            "shapes_and_lengths": f"(frames, width, rate) {found} arrived, the index says {wanted}" * (found != wanted),
            "finite_values": "values that are not finite, or audio outside [-1, 1]" * (not sample.is_sound),
            "matches_json": sample.contradiction,
        }
        for verdict, what in wrong.items():
            if what:
                seen.wrong[at] += 1
                _note(self.faults[verdict], f"{reader}: {self._place(at)} {sample.key}: {what}")

    def _count(self, reader: str, seen: _Seen) -> None:
        missing, twice = (np.flatnonzero(seen.times == 0), np.flatnonzero(seen.times > 1))
        if len(missing) or len(twice):
            at = int([*missing, *twice][0])
            _note(
                self.faults["every_key_once"],
                f"{reader}: {len(missing)} samples never arrived, {len(twice)} arrived more than once; the first of "
                f"them is in {self._place(at)}",
            )

    def _place(self, at: int) -> str:
        return self.shards[int(self.expected.shard[at])]


def _count_faults(rows: pl.DataFrame) -> list[str]:
    wrong = rows.filter(
        (pl.col("samples") != pl.col("expected_samples")) | (pl.col("streamed") != pl.col("expected_samples"))
    )
    return [
        f"{row['shard']}: {row['samples']} samples arrived, {row['streamed']} by streaming; sizes.json says "
        f"{row['expected_samples']}"
        for row in wrong.head(_SHOWN).to_dicts()
    ]


def _files(storage: Storage, result: SmokeResult) -> set[str]:
    """What lies in a local folder; nothing of a store or of a folder too large to list twice."""
    is_small = result.is_whole and storage.local_path("sizes.json") is not None
    return {entry.path for entry in storage.list()} if is_small else set()


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


def shard_rows(table: ShardTable, expected: Expected, plain: _Seen, streamed: _Seen) -> pl.DataFrame:
    """One row per shard: `shard`, `expected_samples`, the `samples` and `streamed` that arrived, `faults`, sizes."""

    def by_shard(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.bincount(expected.shard, weights=values, minlength=len(table)).astype(np.int64)

    columns = {
        "shard": table.names(),
        "expected_samples": table.num_samples.astype(np.int64),
        "samples": by_shard(plain.times),
        "streamed": by_shard(streamed.times),
        "faults": by_shard(plain.wrong + streamed.wrong),
        "num_frames": table.num_frames,
        "num_bytes": table.num_bytes,
    }
    return pl.DataFrame(columns, schema={name: pl.String if name == "shard" else pl.Int64 for name in columns})


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
            "streamed": pa.Column(pl.Int64, pa.Check.ge(0)),
            "faults": pa.Column(pl.Int64, pa.Check.ge(0)),
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


def _note(faults: list[str], fault: str) -> None:
    if len(faults) < _SHOWN:
        faults.append(fault)


def _arrivals(source: _Source, expected: Expected, loader: LoaderConfig) -> Iterator[Arrived]:
    """All samples, in whatever order the plain pipeline gives them."""
    from headrace.webdataset import webdataset_loader  # noqa: PLC0415 - torch comes in only here

    batches = webdataset_loader(
        source.urls,
        snapshot=source.pinned,
        batch_size=None if expected.is_mixed else loader.batch_size,
        num_workers=loader.num_workers,
        shuffle_buffer=loader.shuffle_buffer,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        persistent_workers=False,
    )
    for batch in batches:
        yield from [arrived_sample(batch)] if expected.is_mixed else arrived_batch(batch)
