"""Brings the audio shards of a partition up to date with its recordings.

Recordings are decoded and encoded on threads, in bounded memory; the shards are written in order. Which sample belongs
to which shard is decided by `headrace.build.plan`.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from typing import BinaryIO, TypeVar

from headrace.audio import (
    AudioFormat,
    Codec,
    EncodedSegment,
    Segment,
    codec_version,
    encode_segments,
    planned_bytes,
    prove,
    proves,
    with_serial,
)
from headrace.build.plan import PlannedSample, ShardPlan, layout_of, plan_shards
from headrace.build.samples import Planned, planned_samples, sample_json, sample_key
from headrace.build.update import PartitionBuild, PartitionTarget, bring_up_to_date
from headrace.catalog.listing import FileStamp
from headrace.catalog.recordings import Recording, fingerprint_of
from headrace.catalog.sources import Source
from headrace.config.partitioning import ShardSize
from headrace.errors import AudioError, BuildError, FileChangedError
from headrace.format.index import REFUSED_NOTE, ShardIndex
from headrace.format.index_entries import SampleEntry
from headrace.format.manifests import (
    ManifestRejection,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    rejections_of,
    sequence_of,
    split_of,
)
from headrace.format.planned_keys import pack_keys, read_planned_keys
from headrace.format.writer import ShardPlace, ShardWriter, published_index
from headrace.ordered import WeightLimit, map_in_order
from headrace.stores.storage import Storage

SHARD_FORMAT = 1
_SECONDS_NOTE = "seconds"
_TASK_SECONDS = 60.0  # audio that one thread encodes at a time: bounds the memory for long recordings
_LONG_TASKS_PER_THREAD = 2  # encoded ahead of the shard that is being written: one under way, one ready
_SHORT_TASKS_PER_THREAD = 8  # enough that no thread waits while a shard of short recordings is published
_TASK_SECONDS_NO_SEEK = 900.0  # if each task has to decode from the recording's beginning


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings that, together with the recordings, decide the bytes of a partition's shards.

    Attributes:
        audio: format of the audio in shards.
        size: size of a full shard.
        reshuffle: how often the data set was laid out from scratch.
    """

    audio: AudioFormat
    size: ShardSize
    reshuffle: int = 0

    @property
    def layout(self) -> dict[str, int]:
        """See `Manifest.layout`."""
        return layout_of(self.size, self.reshuffle)

    def digest(self) -> str:
        """Digest of the audio settings, the shard format and the versions of the codecs."""
        content = [SHARD_FORMAT, codec_version(self.audio.codec), self.audio.canonical()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def wanted(self, fingerprint: str) -> str:
        """Digest of everything that a partition is built from, given its fingerprint (see `Manifest.wanted`)."""
        layout = " ".join(f"{name} {value}" for name, value in self.layout.items())
        return hashlib.sha256(f"{self.digest()} {layout} {fingerprint}".encode()).hexdigest()


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
    """Bring the audio shards of one partition up to date.

    Shards that were made from the wanted input are reused, including those of an interrupted build. The bytes do not
    depend on `num_threads`.

    Args:
        partition: for example `train-0003`.
        recordings: the partition's recordings in the catalog.
        settings: audio format and shard size.
        source: opens the recordings.
        storage: the folder of audio shards.
        num_threads: number of recordings encoded at a time.
        progress: called with a number of samples each time this many are done.

    Raises:
        BuildError: a recording changed since the catalog was scanned, or see `bring_up_to_date`.
    """
    fingerprint = fingerprint_of(recordings)
    target = PartitionTarget(partition, settings.wanted(fingerprint), fingerprint, settings.layout)
    recipe = _AudioRecipe(target, recordings, settings, source, storage, num_threads, progress)
    return bring_up_to_date(recipe, storage, published_index, progress)


_Encoded = list[EncodedSegment] | AudioError
_Result = TypeVar("_Result")


@dataclass(slots=True)
class _AudioRecipe:
    """Plans and writes the audio shards of one partition; a `ShardRecipe`."""

    target: PartitionTarget
    recordings: Sequence[Recording]
    settings: ShardSettings
    source: Source
    storage: Storage
    num_threads: int
    progress: Callable[[int], None]
    _planned: Planned = field(init=False)
    _too_short: list[ManifestRejection] = field(init=False)

    def plan(self, previous: NumberedManifest | None) -> list[ShardPlan]:
        """See `ShardRecipe`."""
        self._planned, self._too_short = planned_samples(self.recordings, self.settings.audio)
        return plan_shards(
            self._places(previous),
            [self._planned_sample(key, recording, segment) for key, (recording, segment) in self._planned.items()],
            size=self.settings.size,
            settings=self.settings.digest(),
        )

    def _planned_sample(self, key: str, recording: Recording, segment: Segment) -> PlannedSample:
        size = planned_bytes(recording.info, self.settings.audio, segment, recording.num_bytes)
        return PlannedSample(key, recording.key, segment.index, recording.sample_digest, size)

    def planned_keys(self, plans: Sequence[ShardPlan]) -> bytes:
        """See `ShardRecipe`."""
        return pack_keys([sample.key for sample in plan.samples] for plan in plans) if plans else b""

    def _places(self, previous: NumberedManifest | None) -> dict[int, list[str]]:
        """Number of a shard → the keys that were planned for it; empty if the layout is another one."""
        if previous is None or previous.manifest.layout != self.settings.layout:
            return {}
        numbers = [sequence_of(shard.name) for shard in previous.manifest.shards]
        return dict(zip(numbers, read_planned_keys(self.storage, previous), strict=True))

    def entry(self, plan: ShardPlan, index: ShardIndex) -> ShardEntry:
        """See `ShardRecipe`."""
        return ShardEntry(
            name=index.shard,
            num_bytes=index.num_bytes,
            num_samples=len(index),
            num_frames=int(index.num_frames.sum()),
            seconds=float(index.notes[_SECONDS_NOTE]),
            input_digest=plan.input_digest,
            num_planned=len(plan.samples),
        )

    def rejected(self, indexes: Sequence[ShardIndex]) -> tuple[ManifestRejection, ...]:
        """See `ShardRecipe`: the recordings without samples, by path. Several shards may name the same recording."""
        undecodable = {refusal for index in indexes for refusal in rejections_of(index)}
        return tuple(sorted([*self._too_short, *undecodable], key=lambda refusal: refusal.path))

    def write(self, plans: Sequence[ShardPlan]) -> dict[str, ShardIndex]:
        """See `ShardRecipe`. Samples are encoded on threads, in bounded memory."""
        tasks = (task for plan in plans for task in self._tasks(plan))
        with ThreadPoolExecutor(self.num_threads, "encode") as pool:
            faults = self._faults(plans, pool)
            results = map_in_order(
                pool,
                lambda task: faults.get(task[0].path) or self._encode(task),
                tasks,
                window=_SHORT_TASKS_PER_THREAD * self.num_threads,
                limit=WeightLimit(self._weight, _LONG_TASKS_PER_THREAD * self.num_threads * _TASK_SECONDS),
            )
            return {plan.input_digest: self._write_one(plan, results) for plan in plans}

    def _faults(self, plans: Sequence[ShardPlan], pool: ThreadPoolExecutor) -> dict[str, AudioError]:
        """Path → error of damaged recordings that are split into several tasks.

        They are checked as a whole first, because all samples of a damaged recording are rejected, not only some.
        """
        parted = {
            recording.path: recording
            for plan in plans
            for recording, segments in self._tasks(plan)
            if not proves(recording.info, self.settings.audio, segments)
        }
        found = pool.map(lambda recording: self._read(recording, partial(prove, info=recording.info)), parted.values())
        return {path: fault for path, fault in zip(parted, found, strict=True) if fault is not None}

    def _write_one(self, plan: ShardPlan, results: Iterator[_Encoded]) -> ShardIndex:
        """Publish one shard from the next results."""
        place = ShardPlace(split_of(self.target.partition), bucket_of(self.target.partition), plan.sequence)
        refused: dict[str, ManifestRejection] = {}
        seconds = 0.0
        with ShardWriter(self.storage, place) as writer:
            for recording, segments in self._tasks(plan):
                result = next(results)
                if isinstance(result, AudioError):
                    refused[recording.path] = ManifestRejection(recording.path, result.reason, str(result))
                else:
                    seconds += self._add(writer, recording, segments, result)
                self.progress(len(segments))
            self._check_conserved(plan, refused, writer)
            notes = {
                REFUSED_NOTE: json.dumps([asdict(refusal) for refusal in refused.values()], ensure_ascii=False),
                _SECONDS_NOTE: repr(round(seconds, 6)),
            }
            return writer.publish(plan.input_digest, notes)

    def _check_conserved(self, plan: ShardPlan, refused: Collection[str], writer: ShardWriter) -> None:
        """Raise `BuildError` unless the shard has exactly the planned samples whose recordings are not rejected."""
        wanted = [sample.key for sample in plan.samples if self._planned[sample.key][0].path not in refused]
        if (written := writer.keys) != wanted:
            other = sorted(set(wanted) ^ set(written))[:3]
            raise BuildError(
                f"{self.target.partition}: shard {plan.sequence} would have {len(written)} samples, expected "
                f"{len(wanted)} (planned, and not rejected): {', '.join(other) or 'in another order'}; this is an "
                "error in Headrace, please report it"
            )

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
            payload = with_serial(sample.payload, key) if self.settings.audio.codec is Codec.OPUS else sample.payload
            writer.add(key, {sample.extension: (payload, sample.num_bytes), "json": (text, len(text))}, facts)
            seconds += sample.num_frames / sample.sample_rate_hz
        return seconds

    def _tasks(self, plan: ShardPlan) -> Iterator[tuple[Recording, list[Segment]]]:
        """The plan's samples, in parts that one thread encodes at a time: a recording and some of its segments."""
        for _, samples in groupby(plan.samples, key=lambda sample: sample.recording):
            batch: list[Segment] = []
            seconds = 0.0
            for sample in samples:
                recording, segment = self._planned[sample.key]
                length = segment.num_frames / (self.settings.audio.sample_rate_hz or recording.info.sample_rate_hz)
                longest = _TASK_SECONDS if recording.info.has_exact_seek else _TASK_SECONDS_NO_SEEK
                # A segment that was excluded for some time comes after later ones.
                is_earlier = bool(batch) and segment.start_frame < batch[-1].start_frame
                if batch and (seconds + length > longest or is_earlier):
                    yield recording, batch
                    batch, seconds = [], 0.0
                batch.append(segment)
                seconds += length
            yield recording, batch

    def _weight(self, task: tuple[Recording, list[Segment]]) -> float:
        """Seconds of audio, at most those of one full task, because longer segments are encoded to disk."""
        recording, segments = task
        rate_hz = self.settings.audio.sample_rate_hz or recording.info.sample_rate_hz
        return min(_TASK_SECONDS, sum(segment.num_frames for segment in segments) / rate_hz)

    def _encode(self, task: tuple[Recording, list[Segment]]) -> _Encoded:
        """Encode some segments of one recording."""
        recording, segments = task
        return self._read(
            recording, lambda file: list(encode_segments(file, recording.info, self.settings.audio, segments))
        )

    def _read(self, recording: Recording, use: Callable[[BinaryIO], _Result]) -> _Result | AudioError:
        """The result of `use` on an open recording; or the `AudioError` that it raised, as a value."""
        stamp = FileStamp(recording.num_bytes, recording.mtime_ns)
        try:
            with self.source.open(recording.path, stamp) as file:
                try:
                    return use(file)
                except AudioError as error:
                    return error  # at the end of the block: an error of a file that changed is not the recording's
        except FileChangedError as error:
            raise BuildError(
                f"{recording.path}: the file changed since the catalog was scanned; build again"
            ) from error
        except OSError as error:
            raise _removed(recording, error) from error


def _removed(recording: Recording, error: OSError) -> BuildError:
    return BuildError(f"{recording.path}: {error}; was it removed? The next build scans again")
