"""Audio shards: from a partition's recordings to its tars, indexes and manifest.

Owns carrying out what `headrace.plan` decides: encoding on threads in bounded memory, writing shards in order, using
again what is there, and committing the manifest. It decides no assignment and knows nothing of Dagster.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import groupby

from headrace.audio import AudioFormat, EncodedSegment, Segment, codec_version, encode_segments
from headrace.errors import AlreadyExistsError, AudioError, BuildError
from headrace.index import SampleEntry, ShardIndex
from headrace.manifests import (
    Manifest,
    NumberedManifest,
    Refusal,
    ShardEntry,
    bucket_of,
    commit_manifest,
    file_sizes,
    newest_manifest,
    split_of,
)
from headrace.ordered import Budget, map_in_order
from headrace.plan import PlannedSample, ShardPlan, layout_of, plan_shards
from headrace.recordings import Recording, fingerprint_of
from headrace.samples import Planned, planned_samples, sample_json, sample_key
from headrace.shardwriter import ShardPlace, ShardWriter, published_index
from headrace.sources import Source, Stamp
from headrace.storage import Storage

SHARD_FORMAT = 1
_REFUSED_NOTE = "refused"
_SECONDS_NOTE = "seconds"
_TASK_SECONDS = 60.0  # audio that one thread encodes at a time: bounds memory on long recordings
_LONG_TASKS_PER_THREAD = 2  # encoded ahead of the shard that is being written: one under way, one ready
_SHORT_TASKS_PER_THREAD = 8  # enough that no thread waits while a shard of short clips is published
_TASK_SECONDS_NO_SEEK = 900.0  # where each task must decode from the recording's beginning
_COMMIT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What decides the bytes of a partition's shards besides its recordings."""

    audio: AudioFormat
    samples_per_shard: int
    reshuffle: int = 0

    @property
    def layout(self) -> dict[str, int]:
        """See `Manifest.layout`."""
        return layout_of(self.samples_per_shard, self.reshuffle)

    def digest(self) -> str:
        """Digest of the settings, the format and the codecs."""
        content = [SHARD_FORMAT, codec_version(), self.audio.canonical()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def wanted(self, fingerprint: str) -> str:
        """Digest of everything that a partition is built from; see `Manifest.wanted`."""
        layout = " ".join(map(str, self.layout.values()))
        return hashlib.sha256(f"{self.digest()} {layout} {fingerprint}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PartitionBuild:
    """What building a partition came to.

    Attributes:
        manifest: the manifest that counts now.
        written: names of shards written by this build.
        reused: names of shards that were there already.
        is_new: whether a manifest was committed.
    """

    manifest: NumberedManifest
    written: tuple[str, ...]
    reused: tuple[str, ...]
    is_new: bool


def build_partition(  # noqa: PLR0913 - the five parts of a build, and who watches it
    partition: str,
    recordings: Sequence[Recording],
    settings: ShardSettings,
    source: Source,
    storage: Storage,
    *,
    num_threads: int,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
) -> PartitionBuild:
    """Bring the shards of one partition up to date.

    Shards that exist with the wanted input are used again, also those that a killed build left behind. The bytes do not
    depend on `num_threads`.

    Args:
        partition: for example `train-0003`.
        recordings: what the catalog says it should hold.
        settings: audio format and shard size.
        source: where the recordings are opened.
        storage: the folder of audio shards.
        num_threads: recordings encoded at a time.
        progress: called with a number of samples each time so many are done.

    Raises:
        BuildError: a recording changed since the catalog was scanned, or other writers kept winning the commit.
    """
    for _ in range(_COMMIT_ATTEMPTS):
        previous = newest_manifest(storage, partition)
        fingerprint = fingerprint_of(recordings)
        wanted = settings.wanted(fingerprint)
        if previous is not None and previous.manifest.wanted == wanted:
            kept = previous.manifest
            if kept.is_whole(file_sizes(storage, _file_prefix(partition))):
                return PartitionBuild(previous, (), tuple(shard.name for shard in kept.shards), is_new=False)
        planned, too_short = planned_samples(recordings, settings.audio)
        job = _Job(partition, planned, settings, source, storage, num_threads, progress)
        entries, undecodable, written = job.run(previous.manifest if previous else None)
        refused = tuple(sorted([*too_short, *undecodable], key=lambda refusal: refusal.path))
        manifest = Manifest(partition, wanted, fingerprint, settings.layout, entries, refused)
        reused = tuple(entry.name for entry in entries if entry.name not in written)
        if previous is not None and previous.manifest == manifest:  # a damaged shard was made again, bit for bit
            return PartitionBuild(previous, tuple(written), reused, is_new=False)
        try:
            committed = commit_manifest(storage, manifest, previous)
        except AlreadyExistsError:
            continue
        there = file_sizes(storage, _file_prefix(partition))  # a gc may have removed what was old and is used again
        if manifest.is_whole(there):
            return PartitionBuild(committed, tuple(written), reused, is_new=True)
    raise BuildError(
        f"{partition}: other writers kept committing this partition, or removing its shards; stop them and build again"
    )


_Encoded = list[EncodedSegment] | AudioError


@dataclass(frozen=True, slots=True)
class _Job:
    """One partition's shards, from plan to storage."""

    partition: str
    planned: Planned
    settings: ShardSettings
    source: Source
    storage: Storage
    num_threads: int
    progress: Callable[[int], None]

    def run(self, previous: Manifest | None) -> tuple[tuple[ShardEntry, ...], set[Refusal], list[str]]:
        """All shards of the plan: entries, refusals, and names of those that had to be written."""
        plans = plan_shards(
            previous,
            [PlannedSample(key, rec.key, seg.index, rec.digest) for key, (rec, seg) in self.planned.items()],
            samples_per_shard=self.settings.samples_per_shard,
            settings=self.settings.digest(),
            reshuffle=self.settings.reshuffle,
        )
        found = self._existing(plans, previous)
        indexes = self._write([plan for plan in plans if plan.input_digest not in found])
        written = [index.shard for index in indexes.values()]
        found |= indexes
        entries = tuple(_entry(plan, found[plan.input_digest]) for plan in plans)
        refused = {refusal for plan in plans for refusal in refusals(found[plan.input_digest])}
        return entries, refused, written

    def _existing(self, plans: Sequence[ShardPlan], previous: Manifest | None) -> dict[str, ShardIndex]:
        """Indexes of whole shards that were made from what is wanted now, by input digest."""
        wanted = {plan.input_digest for plan in plans}
        found: dict[str, ShardIndex] = {}
        for shard in previous.shards if previous else ():
            if shard.input_digest in wanted and (index := published_index(self.storage, shard.name)) is not None:
                found[shard.input_digest] = index
        if len(found) < len(wanted):
            for entry in self.storage.list(_file_prefix(self.partition)):
                if entry.path.endswith(".tar") and (index := published_index(self.storage, entry.path)) is not None:
                    found.setdefault(index.input_digest, index)
        self.progress(sum(len(plan.samples) for plan in plans if plan.input_digest in found))
        return {digest: index for digest, index in found.items() if digest in wanted}

    def _write(self, plans: Sequence[ShardPlan]) -> dict[str, ShardIndex]:
        """Encode and publish these shards, in order."""
        tasks = (task for plan in plans for task in self._tasks(plan))
        with ThreadPoolExecutor(self.num_threads, "encode") as pool:
            results = map_in_order(
                pool,
                self._encode,
                tasks,
                window=_SHORT_TASKS_PER_THREAD * self.num_threads,
                budget=Budget(self._weight, _LONG_TASKS_PER_THREAD * self.num_threads * _TASK_SECONDS),
            )
            return {plan.input_digest: self._write_one(plan, results) for plan in plans}

    def _write_one(self, plan: ShardPlan, results: Iterator[_Encoded]) -> ShardIndex:
        """Publish one shard from the next results."""
        place = ShardPlace(split_of(self.partition), bucket_of(self.partition), plan.sequence)
        refused: dict[str, Refusal] = {}
        seconds = 0.0
        with ShardWriter(self.storage, place) as writer:
            for recording, segments in self._tasks(plan):
                result = next(results)
                if isinstance(result, AudioError):
                    refused[recording.path] = Refusal(recording.path, result.reason, str(result))
                else:
                    seconds += self._add(writer, recording, segments, result)
                self.progress(len(segments))
            notes = {
                _REFUSED_NOTE: json.dumps([asdict(refusal) for refusal in refused.values()], ensure_ascii=False),
                _SECONDS_NOTE: repr(round(seconds, 6)),
            }
            return writer.publish(plan.input_digest, notes)

    def _add(
        self, writer: ShardWriter, recording: Recording, segments: list[Segment], encoded: list[EncodedSegment]
    ) -> float:
        """Append a recording's samples. Returns their length in seconds."""
        is_whole = self.settings.audio.segment_seconds is None
        seconds = 0.0
        for segment, sample in zip(segments, encoded, strict=True):
            key = sample_key(recording, segment, is_whole=is_whole)
            text = sample_json(recording, segment, sample)
            facts = SampleEntry(key, {}, sample.num_frames, sample.sample_rate_hz, sample.num_channels)
            writer.add(key, {"flac": (sample.payload, sample.num_bytes), "json": (text, len(text))}, facts)
            seconds += sample.num_frames / sample.sample_rate_hz
        return seconds

    def _tasks(self, plan: ShardPlan) -> Iterator[tuple[Recording, list[Segment]]]:
        """The plan's samples in pieces that one thread encodes at a time."""
        for _, samples in groupby(plan.samples, key=lambda sample: sample.recording):
            batch: list[Segment] = []
            seconds = 0.0
            for sample in samples:
                recording, segment = self.planned[sample.key]
                length = segment.num_frames / (self.settings.audio.sample_rate_hz or recording.info.sample_rate_hz)
                longest = _TASK_SECONDS if recording.info.has_exact_seek else _TASK_SECONDS_NO_SEEK
                if batch and seconds + length > longest:
                    yield recording, batch
                    batch, seconds = [], 0.0
                batch.append(segment)
                seconds += length
            yield recording, batch

    def _weight(self, task: tuple[Recording, list[Segment]]) -> float:
        """Seconds of audio, at most those of one full task: longer recordings are encoded to disk, not to memory."""
        recording, segments = task
        rate_hz = self.settings.audio.sample_rate_hz or recording.info.sample_rate_hz
        return min(_TASK_SECONDS, sum(segment.num_frames for segment in segments) / rate_hz)

    def _encode(self, task: tuple[Recording, list[Segment]]) -> _Encoded:
        """Encode some segments of one recording; a fault of the recording is a value, not an exception."""
        recording, segments = task
        stamp = Stamp(recording.num_bytes, recording.mtime_ns)
        found: _Encoded
        try:
            with self.source.open(recording.path) as file:
                found = list(encode_segments(file, recording.info, self.settings.audio, segments))
        except AudioError as error:
            found = error
        except OSError as error:
            raise _removed(recording, error) from error
        self._check_unchanged(recording, stamp)
        return found

    def _check_unchanged(self, recording: Recording, stamp: Stamp) -> None:
        try:
            found = self.source.stamp(recording.path)
        except OSError as error:
            raise _removed(recording, error) from error
        if found != stamp:
            raise BuildError(f"{recording.path}: changed since the catalog was scanned; build again")


def _removed(recording: Recording, error: OSError) -> BuildError:
    return BuildError(f"{recording.path}: {error}; was it removed? The next build scans again")


def _file_prefix(partition: str) -> str:
    """What the names of a partition's shards begin with."""
    return f"{split_of(partition)}_{bucket_of(partition):04d}_"


def refusals(index: ShardIndex) -> list[Refusal]:
    """Recordings that were planned for a shard and could not be decoded."""
    return [Refusal(**refusal) for refusal in json.loads(index.notes[_REFUSED_NOTE])]


def _entry(plan: ShardPlan, index: ShardIndex) -> ShardEntry:
    return ShardEntry(
        name=index.shard,
        num_bytes=index.num_bytes,
        num_samples=len(index),
        num_frames=int(index.num_frames.sum()),
        seconds=float(index.notes[_SECONDS_NOTE]),
        input_digest=plan.input_digest,
        samples=tuple(sample.key for sample in plan.samples),
    )
