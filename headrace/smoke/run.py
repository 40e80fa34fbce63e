"""Runs the smoke test: reads the newest snapshots of a data set as training jobs do, and compares what arrives.

Every part (audio, and each set of latents) is read by `StreamingDataset` as a job of two ranks, and by the plain
webdataset pipeline. Audio is also read together with its latents, and one sample of each partition of latents is
encoded again. `headrace.smoke.choice` chooses the shards, `headrace.smoke.comparing` compares the samples.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from headrace.config.operation import LoaderConfig
from headrace.errors import NotFoundError
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, read_table
from headrace.smoke.arrivals import ArrivedSample, arrived_batch, arrived_sample
from headrace.smoke.choice import Coverage, ReadLimits, choose
from headrace.smoke.comparing import MOST_SHOWN, SampleComparer, SeenSamples
from headrace.smoke.counts import count_faults
from headrace.smoke.expected import ExpectedSamples, read_expected
from headrace.smoke.joined import JoinedReading, PartRead, spans_of
from headrace.smoke.streams import (
    RankStreams,
    child_processes,
    leftover_processes,
    num_samples_opened,
    resumable_batch_size,
)
from headrace.smoke.verdicts import VERDICTS
from headrace.stores.storage import Storage
from headrace.streaming.output_fields import outputs_of_origin

if TYPE_CHECKING:
    from headrace.smoke.encoding import Encoders

AUDIO = "audio"
"""Name of the part that the others are latents of."""


@dataclass(frozen=True, slots=True)
class SmokePart:
    """A shard folder at one snapshot.

    Attributes:
        storage: the folder.
        numbered: the snapshot.
        table: all its shards.
        texts: for latents of texts, the folder of the set of columns that has them; None if the JSON has them.
    """

    storage: Storage
    numbered: NumberedSnapshot
    table: ShardTable
    texts: Storage | None = None

    @classmethod
    def newest(cls, storage: Storage, texts: Storage | None = None) -> "SmokePart":
        """The newest snapshot of a folder. Raises `NotFoundError`."""
        numbered = read_snapshot(storage)
        return cls(storage, numbered, read_table(storage, numbered.snapshot), texts)


@dataclass(slots=True)
class SmokeResult:
    """The result for one part.

    Attributes:
        table: one row per shard that was read, see `shard_rows`.
        faults: name of the check → error messages; empty lists if the check passed.
        num_samples: samples returned by the plain pipeline.
        num_streamed: samples returned by `StreamingDataset`.
        num_joined: for audio, samples that arrived with their latents.
        encoded: for latents, key and difference of each sample that was encoded again.
        seconds: duration of reading by the plain pipeline.
        stream_seconds: duration of reading by both ranks.
        stream_seconds_to_first: time until the first batch of a rank arrived, start of the workers included.
        num_shards: shards of the snapshot.
        num_new: shards that were read and are new since the last passed test.
    """

    table: pl.DataFrame
    faults: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in VERDICTS})
    num_samples: int = 0
    num_streamed: int = 0
    num_joined: int = 0
    encoded: list[str] = field(default_factory=list)
    seconds: float = 0.0
    stream_seconds: float = 0.0
    stream_seconds_to_first: float = 0.0
    num_shards: int = 0
    num_new: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all shards of the snapshot were read."""
        return self.table.height == self.num_shards


def smoke_test(
    parts: Mapping[str, SmokePart],
    loader: LoaderConfig,
    coverage: Coverage | None = None,
    encoders: "Mapping[str, Encoders] | None" = None,
    limits: ReadLimits | None = None,
) -> dict[str, SmokeResult]:
    """Read the parts of a data set as training jobs do, and compare. Returns part → result.

    Batches hold one sample if samples differ in channels or rate. An empty snapshot passes.

    Args:
        parts: `AUDIO` and the sets of latents; or any one of them.
        loader: worker processes, shuffle buffer, batch size, how often all shards are read again.
        coverage: record of the tests that passed before; None for none.
        encoders: part → function that loads the encoder of these latents. Other parts are not encoded again.
        limits: limits on what is read.
    """
    limits, coverage = limits or ReadLimits(), coverage or Coverage()
    choice = choose(
        {name: part.table for name, part in parts.items()},
        {name: _known(part, coverage.snapshots.get(name)) for name, part in parts.items()},
        num_passes=coverage.num_passes,
        reread_every=loader.reread_every,
        limits=limits,
    )
    readings = {name: _Reading(part, choice.tables[name], limits) for name, part in parts.items()}
    results = {name: reading.run(loader) for name, reading in readings.items()}
    for name, result in results.items():
        result.num_new = choice.num_new[name]
    if AUDIO in parts and len(parts) > 1:
        _join(readings, results, loader)
    for name, load in (encoders or {}).items():
        _encode_again(parts[AUDIO], readings[name], load, results[name], limits.num_encoded)
    return results


def _known(part: SmokePart, read: tuple[int, str] | None) -> Collection[str]:
    """Names of the shards that the last passed test knew; empty if its snapshot is gone or was replaced."""
    if read is None:
        return ()
    number, fingerprint = read
    try:
        snapshot = read_snapshot(part.storage, number).snapshot
        return set(read_table(part.storage, snapshot).names()) if snapshot.fingerprint == fingerprint else ()
    except NotFoundError:
        return ()


class _Reading:
    """Reads one part alone.

    Attributes:
        part: the part.
        chosen: the shards to read.
        expected: the expected samples of these shards.
        streamed: the samples that `StreamingDataset` returned.
    """

    def __init__(self, part: SmokePart, chosen: ShardTable, limits: ReadLimits) -> None:
        self.part, self.chosen = part, chosen
        self.expected = read_expected(part.storage, chosen)
        self.streamed = SeenSamples.none_of(self.expected)
        self._is_small = limits.hold(part.table)

    @property
    def is_whole(self) -> bool:
        """Whether all shards of the snapshot are read."""
        return len(self.chosen) == len(self.part.table)

    def run(self, loader: LoaderConfig) -> SmokeResult:
        """Read the shards by both readers and compare."""
        storage, table = self.part.storage, self.part.table
        result = SmokeResult(pl.DataFrame(), num_shards=len(table))
        processes, files = child_processes(), self._files()
        plain = SeenSamples.none_of(self.expected)
        if len(self.expected):
            self._read(result, plain, loader)
        result.faults["leaves_nothing"] += leftover_processes(processes)
        new = sorted(self._files() - files)[:MOST_SHOWN]
        result.faults["leaves_nothing"] += [f"{path}: this file was created by the test" for path in new]
        result.table = shard_rows(self.chosen, self.expected, plain, self.streamed)
        snapshot = self.part.numbered.snapshot
        indexed = self.expected.num_indexed(len(self.chosen))
        result.faults["counts_match_sizes"] += count_faults(storage, snapshot, table, result.table, indexed)
        result.faults["result_table"] += table_faults(result.table)
        return result

    def _read(self, result: SmokeResult, plain: SeenSamples, loader: LoaderConfig) -> None:
        comparer = SampleComparer(self.expected, self.chosen.names(), result.faults)
        number = self.part.numbered.number
        source = _ShardSelection(self.part.storage.uri, None if self.is_whole else self.chosen.names(), number)
        times = comparer.read("plain", lambda: _arrivals(source, self.expected, loader), plain)
        result.num_samples, result.seconds, _ = times
        wanted = 1 if self.expected.is_mixed else loader.batch_size
        batch_size = resumable_batch_size(len(self.expected), wanted)
        leaves_out = bool(len(self.expected.rejected))
        with contextlib.closing(RankStreams(source.remote, source.pinned, loader, batch_size, leaves_out)) as streams:
            times = comparer.read("streaming", streams.arrivals, self.streamed)
            result.num_streamed, result.stream_seconds, result.stream_seconds_to_first = times
            comparer.compare_readers(plain, self.streamed)
            self._open_whole(result)
            result.faults["equal_batches"] += streams.batch_faults()
            result.faults["resumes_exactly"] += streams.resume_faults()

    def _open_whole(self, result: SmokeResult) -> None:
        """If not all shards are read, at least open the whole snapshot as a training job does."""
        if self.is_whole:
            return
        found = num_samples_opened(self.part.storage.uri, self.part.numbered.number)
        wanted = int(self.part.table.num_samples.sum())
        if found != wanted:
            fault = f"StreamingDataset opens a snapshot with {found} samples, but its shards have {wanted}"
            result.faults["counts_match_sizes"].append(fault)

    def _files(self) -> set[str]:
        """Files in a local folder; empty for an object store, and for a folder too large to list twice."""
        is_listed = self._is_small and self.part.storage.local_path("sizes.json") is not None
        return {entry.path for entry in self.part.storage.list()} if is_listed else set()

    @property
    def read(self) -> PartRead:
        """The result, for reading it joined with other parts."""
        origin = self.part.numbered.snapshot.origin
        outputs = outputs_of_origin(origin, self.part.storage.uri) if origin else ()
        return PartRead(self.part.storage.uri, self.expected, self.streamed, outputs)


def _join(readings: Mapping[str, _Reading], results: Mapping[str, SmokeResult], loader: LoaderConfig) -> None:
    """Read audio together with all latents and add errors to the result of the audio."""
    audio, result = readings[AUDIO], results[AUDIO]
    may_share = audio.is_whole and not audio.expected.is_mixed  # a batch may reach beyond a part
    reading = JoinedReading(
        audio.read,
        {name: other.read for name, other in readings.items() if name != AUDIO},
        audio.part.numbered.number,
        batch_size=loader.batch_size if may_share else 1,
        num_workers=loader.num_workers if audio.is_whole else 0,
    )
    processes = child_processes()
    spans = spans_of(audio.part.table, audio.chosen)
    result.num_joined = reading.faults(spans, result.faults["joined_by_key"]) if spans else 0
    result.faults["leaves_nothing"] += leftover_processes(processes)


def _encode_again(audio: SmokePart, reading: _Reading, load: "Encoders", result: SmokeResult, most: int) -> None:
    """Encode one sample of each partition that was read, at most `most`, and add differences to the result."""
    from headrace.smoke.encoding import ReencodingCheck  # noqa: PLC0415 - imports torch

    numbered = reading.part.numbered
    seed = f"{numbered.number} {numbered.snapshot.fingerprint}"  # other samples for another snapshot
    check = ReencodingCheck(audio.storage, reading.part.storage, load, seed, most, reading.part.texts)
    found = check.faults(reading.chosen, result.faults["latents_match_audio"])
    result.encoded = [f"{comparison.key}: {comparison}" for comparison in found]


@dataclass(frozen=True, slots=True)
class _ShardSelection:
    """The shards that both loaders read."""

    uri: str
    shards: Sequence[str] | None
    snapshot: int | None

    @property
    def pinned(self) -> int | None:
        """Number of the snapshot if the whole folder is read, else None."""
        return self.snapshot if self.shards is None else None

    @property
    def urls(self) -> str | list[str]:
        """The argument for the plain pipeline."""
        return self.uri if self.shards is None else [f"{self.uri}/{name}" for name in self.shards]

    @property
    def remote(self) -> str:
        """The argument for `StreamingDataset`: the folder, or a brace pattern."""
        match self.shards:
            case None:
                return self.uri
            case [name]:
                return f"{self.uri}/{name}"
            case names:
                return f"{self.uri}/{{{','.join(names)}}}"


def shard_rows(table: ShardTable, expected: ExpectedSamples, plain: SeenSamples, streamed: SeenSamples) -> pl.DataFrame:
    """One row per shard: `shard`, `expected_samples`, the numbers of arrived samples, `faults`, and sizes.

    `samples` arrived from the plain pipeline, `streamed` from `StreamingDataset`. `rejected` counts samples whose
    latents were rejected, so that they do not arrive.
    """

    def by_shard(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.bincount(expected.shard, weights=values, minlength=len(table)).astype(np.int64)

    columns = {
        "shard": table.names(),
        "expected_samples": table.num_samples.astype(np.int64),
        "rejected": np.bincount(expected.rejected, minlength=len(table)).astype(np.int64),
        "samples": by_shard(plain.times),
        "streamed": by_shard(streamed.times),
        "faults": by_shard(plain.wrong + streamed.wrong),
        "num_frames": table.num_frames,
        "num_bytes": table.num_bytes,
    }
    return pl.DataFrame(columns, schema={name: pl.String if name == "shard" else pl.Int64 for name in columns})


def table_faults(table: pl.DataFrame) -> list[str]:
    """Errors that pandera finds in a table of results."""
    import pandera.polars as pa  # noqa: PLC0415 - imports pandas: a code server must start without both
    from pandera.errors import SchemaErrors  # noqa: PLC0415

    from headrace.catalog.judging.quick_checks import surely_passes  # noqa: PLC0415 - imports pandera

    positive = pa.Column(pl.Int64, pa.Check.gt(0))
    schema = pa.DataFrameSchema(
        {
            "shard": pa.Column(pl.String, pa.Check.str_matches(r"^.+\.tar$"), unique=True),
            "expected_samples": positive,
            "rejected": pa.Column(pl.Int64, pa.Check.ge(0)),
            "samples": pa.Column(pl.Int64, pa.Check.ge(0)),
            "streamed": pa.Column(pl.Int64, pa.Check.ge(0)),
            "faults": pa.Column(pl.Int64, pa.Check.ge(0)),
            "num_frames": pa.Column(pl.Int64, pa.Check.ge(0)),
            "num_bytes": positive,
        },
        strict=True,
    )
    try:
        if not surely_passes(schema, table):
            schema.validate(table, lazy=True)
    except SchemaErrors as error:
        return [str(case) for case in error.failure_cases.head(MOST_SHOWN).to_dicts()]
    return []


def _arrivals(source: _ShardSelection, expected: ExpectedSamples, loader: LoaderConfig) -> Iterator[ArrivedSample]:
    """Facts of all samples, in the order of the plain pipeline."""
    from headrace.plain.loader import webdataset_loader  # noqa: PLC0415 - imports torch

    batches = webdataset_loader(
        source.urls,
        snapshot=source.pinned,
        batch_size=None if expected.is_mixed else loader.batch_size,
        num_workers=loader.num_workers,
        shuffle_buffer=loader.shuffle_buffer,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        persistent_workers=False,
        on_missing_latents="skip",
        collate_fn=_facts,
    )
    if not expected.is_mixed:
        yield from chain.from_iterable(batches)
    else:
        yield from (arrived_sample(sample) for sample in batches if not sample.get("is_padding", False))


def _facts(samples: Sequence[dict[str, Any]]) -> list[ArrivedSample]:
    """Facts of a batch, found in the worker that made it: values of webdataset's pipeline need not leave it."""
    from headrace.streaming.batches.stacking import collate  # noqa: PLC0415 - imports torch

    return list(arrived_batch(collate(samples)))
