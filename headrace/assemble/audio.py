"""Brings the audio shards of a partition up to date with its recordings.

Recordings are decoded and encoded on threads, in bounded memory; the shards are written in order. Which sample belongs
to which shard is decided by `headrace.assemble.plan`.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import BinaryIO, cast

from headrace.assemble.audio_counts import AudioCounts
from headrace.assemble.encoding_tasks import TASK_SECONDS, EncodingTask, spans_of_passes, tasks_of, tasks_of_fields
from headrace.assemble.plan import ShardPlan, plan_shards
from headrace.assemble.publishing import Publisher
from headrace.assemble.recording_encoder import Encoded, RecordingEncoder, all_encoded
from headrace.assemble.samples import Planned, ordered_samples, planned_samples, rejection_key, sample_json, sample_key
from headrace.assemble.shard_settings import ShardSettings
from headrace.assemble.span_passes import EncodedSpan, SpanPasses
from headrace.assemble.taken_over import CopyTask, OldShards, divided
from headrace.assemble.update import PartitionBuild, PartitionTarget, bring_up_to_date
from headrace.audio import (
    AudioOrigin,
    Codec,
    EncodedSegment,
    Segment,
    with_serial,
)
from headrace.catalog.rows.recordings import Recording, fingerprint_of
from headrace.errors import AudioError, BuildError, HeadraceError
from headrace.format.indexes.audio_fields import AUDIO, AudioFacts, common_facts
from headrace.format.indexes.index import REFUSED_NOTE, ShardIndex
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.manifests.made_by import MadeShards
from headrace.format.manifests.manifests import (
    ManifestRejection,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    rejections_of,
    sequence_of,
    split_of,
)
from headrace.format.manifests.planned_keys import PlannedKey, pack_keys, read_planned
from headrace.format.manifests.stored_census import StoredCensus, census_of
from headrace.format.shards.writer import ShardPlace, ShardWriter, published_index
from headrace.ordered import Pending, TaskThreads, WeightLimit, map_in_order, start_in_order
from headrace.sources.rows_ahead import announce
from headrace.sources.sources import Source
from headrace.stores.storage import Storage

_SECONDS_NOTE = "seconds"
_LONG_TASKS_PER_THREAD = 2  # encoded ahead of the shard that is being written: one under way, one ready
_COPIED_AT_A_TIME = 4  # at most: each shard is in memory until it is published
_SHORT_TASKS_PER_THREAD = 8  # enough that no thread waits while a shard of short recordings is published


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
    built = bring_up_to_date(recipe, storage, published_index, progress)
    return replace(built, audio=recipe.counts)


@dataclass(frozen=True, slots=True)
class _ReadyShard:
    """A shard that can be published.

    Attributes:
        writer: its samples.
        notes: notes of its index.
        counts: how the audio of its samples came into it.
    """

    writer: ShardWriter
    notes: dict[str, str]
    counts: AudioCounts


_log = logging.getLogger(__name__)


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
    _old: OldShards = field(init=False)
    _tasks_of: dict[int, list[CopyTask | EncodingTask]] = field(default_factory=dict)
    counts: AudioCounts = field(init=False, default=AudioCounts())

    @property
    def _encoder(self) -> RecordingEncoder:
        return RecordingEncoder(self.source, self.settings.audio)

    def plan(self, previous: NumberedManifest | None) -> list[ShardPlan]:
        """See `ShardRecipe`."""
        self._planned, self._too_short = planned_samples(self.recordings, self.settings.audio)
        planned = [] if previous is None else read_planned(self.storage, previous)
        shards = () if previous is None else previous.manifest.shards
        self._tasks_of.clear()
        self._old = OldShards.of(self.storage, [shard.name for shard in shards], planned)
        keeps_places = previous is not None and previous.manifest.layout == self.settings.layout
        return plan_shards(
            _places(shards, planned) if keeps_places else {},
            ordered_samples(self._planned, self.settings.audio),
            size=self.settings.size,
            settings=self.settings.digest(),
        )

    def planned_keys(self, plans: Sequence[ShardPlan]) -> bytes:
        """See `ShardRecipe`."""
        lines = ([PlannedKey(sample.key, sample.audio).line for sample in plan.samples] for plan in plans)
        return pack_keys(lines) if plans else b""

    def entry(self, plan: ShardPlan, index: ShardIndex) -> ShardEntry:
        """See `ShardRecipe`."""
        return ShardEntry(
            name=index.shard,
            num_bytes=index.num_bytes,
            num_samples=len(index),
            num_frames=int(index.num_frames.sum()),
            seconds=index.number(_SECONDS_NOTE),
            input_digest=plan.input_digest,
            num_planned=len(plan.samples),
        )

    def rejected(self, indexes: Sequence[ShardIndex]) -> tuple[ManifestRejection, ...]:
        """See `ShardRecipe`: the recordings without samples, by path. Several shards may name the same recording."""
        undecodable = {refusal for index in indexes for refusal in rejections_of(index)}
        return tuple(sorted([*self._too_short, *undecodable], key=lambda refusal: refusal.path))

    def labels(self, indexes: Sequence[ShardIndex]) -> dict[str, tuple[str, ...]]:  # noqa: ARG002
        """See `ShardRecipe`: none, which columns alone have."""
        return {}

    def made(self, indexes: Sequence[ShardIndex]) -> tuple[MadeShards, ...]:  # noqa: ARG002
        """See `ShardRecipe`: none, because bytes of audio depend on no device."""
        return ()

    def lengths(self, indexes: Sequence[ShardIndex]) -> StoredCensus | None:
        """See `ShardRecipe`."""
        return census_of(indexes)

    def write(self, plans: Sequence[ShardPlan]) -> dict[str, ShardIndex]:
        """See `ShardRecipe`. Samples are encoded on threads, in bounded memory."""
        found = self._copied([plan for plan in plans if all(isinstance(task, CopyTask) for task in self._tasks(plan))])
        found |= self._encoded([plan for plan in plans if plan.input_digest not in found])
        return {plan.input_digest: found[plan.input_digest] for plan in plans}

    def _copied(self, plans: Sequence[ShardPlan]) -> dict[str, ShardIndex]:
        """Write shards that are only copied, each on one thread: threads that share a shard wait for each other.

        This ends at the first shard that cannot be copied; `_encoded` finds out why, sample by sample.
        """
        found: dict[str, ShardIndex] = {}
        window = min(self.num_threads + 1, _COPIED_AT_A_TIME)  # one may wait for the disk
        with (
            TaskThreads(window, "copy") as pool,
            closing(map_in_order(pool, self._copy_shard, plans, window=window)) as results,
        ):
            for plan, copied in zip(plans, results, strict=False):
                if copied is None:
                    break
                found[plan.input_digest], counts = copied
                self.counts += counts
                self.progress(len(plan.samples))
        return found

    def _copy_shard(self, plan: ShardPlan) -> tuple[ShardIndex, AudioCounts] | None:
        """Copy a shard. Its publisher compares all bytes with the CRC-32 of the old index."""
        try:
            tasks = cast("Iterator[CopyTask]", self._tasks(plan))
            shard = self._collected(plan, (task.unchecked() for task in tasks))
            with shard.writer:
                return shard.writer.publish(plan.input_digest, shard.notes), shard.counts
        except (HeadraceError, OSError) as error:
            _log.warning("%s: shard %d cannot be copied whole: %s", self.target.partition, plan.sequence, error)
            return None

    def _encoded(self, plans: Sequence[ShardPlan]) -> dict[str, ShardIndex]:
        """Write shards of which at least a part is encoded, one after another."""
        tasks = (part for plan in plans for task in self._tasks(plan) for part in _parts(task))
        with (
            Publisher() as publisher,
            TaskThreads(self.num_threads, "encode-spans") as encoders,
            TaskThreads(self.num_threads, "encode") as pool,
        ):
            encoder, faults = replace(self._encoder, go_on=pool.go_on), self._faults(plans, pool)
            spans = spans_of_passes(self._encoding_tasks(plans))
            self._announce(task.recording for task in self._encoding_tasks(plans))
            passes = SpanPasses(pool, encoders, _LONG_TASKS_PER_THREAD * self.num_threads, spans, encoder.spans)

            def start(task: CopyTask | EncodingTask) -> Pending[Encoded]:
                if isinstance(task, CopyTask):
                    return pool.submit(self._copy, task)
                if task.is_pass:
                    return passes.start([recording for recording, _ in task.samples])
                return pool.submit(lambda: faults.get(task.path) or encoder.encode(task))

            results = start_in_order(
                start,
                tasks,
                window=_SHORT_TASKS_PER_THREAD * self.num_threads,
                limit=WeightLimit(self._weight, _LONG_TASKS_PER_THREAD * self.num_threads * TASK_SECONDS),
            )
            for plan in plans:
                shard = self._collected(plan, results, self.progress)
                self.counts += shard.counts
                publisher.add(shard.writer, plan.input_digest, shard.notes)
            return publisher.indexes()

    def _faults(self, plans: Sequence[ShardPlan], pool: TaskThreads) -> dict[str, AudioError]:
        """Path → error of damaged recordings whose segments are split into several tasks.

        They are checked as a whole first, because all segments of a damaged recording are rejected, not only some.
        """
        encoder = self._encoder
        parted = {task.path: task.recording for task in self._encoding_tasks(plans) if encoder.needs_check(task)}
        self._announce(parted.values())
        found = pool.map(encoder.fault, parted.values())
        return {path: fault for path, fault in zip(parted, found, strict=True) if fault is not None}

    def _announce(self, recordings: Iterable[Recording]) -> None:
        announce(self.source, [(recording.path, recording.num_bytes) for recording in recordings])

    def _collected(
        self,
        plan: ShardPlan,
        results: Iterator[Encoded],
        progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
    ) -> _ReadyShard:
        """One shard from the next results."""
        place = ShardPlace(split_of(self.target.partition), bucket_of(self.target.partition), plan.sequence)
        refused: dict[tuple[str, str], ManifestRejection] = {}
        seconds, origins = 0.0, Counter[AudioOrigin]()
        with ExitStack() as stack:
            writer = stack.enter_context(ShardWriter(self.storage, place))
            for task in self._tasks(plan):
                for (recording, segment), encoded in zip(task.samples, _by_sample(task, results), strict=True):
                    found = all_encoded(recording, encoded)
                    added = found if isinstance(found, AudioError) else self._add(writer, recording, segment, found)
                    if isinstance(added, AudioError):
                        path, key = _name(recording)
                        refused[path, key] = ManifestRejection(path, added.reason, str(added), key)
                    else:
                        seconds += added[0]
                        origins[added[1]] += 1
                progress(len(task.samples))
            self._check_conserved(plan, refused, writer)
            notes = {
                REFUSED_NOTE: json.dumps([asdict(refusal) for refusal in refused.values()], ensure_ascii=False),
                _SECONDS_NOTE: repr(round(seconds, 6)),
            }
            stack.pop_all()  # what publishes the shard closes the writer
            return _ReadyShard(writer, notes, AudioCounts.of_origins(origins))

    def _check_conserved(self, plan: ShardPlan, refused: Collection[tuple[str, str]], writer: ShardWriter) -> None:
        """Raise `BuildError` unless the shard has exactly the planned samples that are not rejected."""
        wanted = [sample.key for sample in plan.samples if _name(self._planned[sample.key][0]) not in refused]
        if (written := writer.keys) != wanted:
            other = sorted(set(wanted) ^ set(written))[:3]
            raise BuildError(
                f"{self.target.partition}: shard {plan.sequence} would have {len(written)} samples, expected "
                f"{len(wanted)} (planned, and not rejected): {', '.join(other) or 'in another order'}; this is an "
                "error in Headrace, please report it"
            )

    def _add(
        self, writer: ShardWriter, recording: Recording, segment: Segment, encoded: Sequence[EncodedSegment]
    ) -> tuple[float, AudioOrigin] | AudioError:
        """Append a sample, from the audio of each field.

        Returns its length in seconds, and how its audio came here; or why fields do not fit.
        """
        key = sample_key(recording, segment, is_whole=self.settings.audio.segment_seconds is None)
        first = encoded[0]
        named = {file.name: audio for file, audio in zip(recording.fields, encoded, strict=False)}
        audio = {name: AudioFacts(a.num_frames, a.sample_rate_hz, a.num_channels) for name, a in named.items()}
        try:
            common = common_facts(
                audio or {AUDIO: AudioFacts(first.num_frames, first.sample_rate_hz, first.num_channels)}
            )
        except AudioError as error:
            return error
        members = {f"{name}.{one.extension}": one for name, one in named.items()} or {first.extension: first}
        payloads = {name: (self._payload(one, key, name), one.num_bytes) for name, one in members.items()}
        text = sample_json(recording, segment, first, named)
        known = {name: one.crc32 for name, one in members.items() if one.crc32 is not None}
        writer.add(key, payloads | {"json": (text, len(text))}, SampleEntry(key, {}, *common, audio=audio), known)
        origin = min((one.origin for one in encoded), key=list(AudioOrigin).index)
        return common.num_frames / common.sample_rate_hz, origin

    def _payload(self, encoded: EncodedSegment, key: str, member: str) -> bytes | BinaryIO:
        """The bytes of an audio field; an Ogg stream with the serial number of its sample and field."""
        if self.settings.audio.codec is not Codec.OPUS or encoded.origin is not AudioOrigin.ENCODER:
            return encoded.payload
        field_name = member.rpartition(".")[0]
        return with_serial(encoded.payload, f"{key}.{field_name}" if field_name else key)

    def _tasks(self, plan: ShardPlan) -> Iterator[CopyTask | EncodingTask]:
        """The plan's samples, in parts that one thread copies or encodes at a time."""
        if plan.sequence not in self._tasks_of:  # a plan's tasks are needed several times, and cost a search
            parts = divided(((*self._planned[sample.key], sample.audio) for sample in plan.samples), self._old)
            tasks = ([part] if isinstance(part, CopyTask) else tasks_of(part, self.settings.audio) for part in parts)
            self._tasks_of[plan.sequence] = list(chain.from_iterable(tasks))
        return iter(self._tasks_of[plan.sequence])

    def _encoding_tasks(self, plans: Sequence[ShardPlan]) -> Iterator[EncodingTask]:
        """The parts of all plans that are encoded, each of one file."""
        tasks = (part for plan in plans for task in self._tasks(plan) for part in _parts(task))
        return (task for task in tasks if isinstance(task, EncodingTask))

    def _weight(self, task: CopyTask | EncodingTask) -> float:
        """Seconds of audio, at most those of one full task, because longer samples are encoded to disk.

        Except with a transform, which needs all of a sample in memory.
        """
        if isinstance(task, CopyTask):
            return TASK_SECONDS * task.share
        return task.seconds if self.settings.audio.transform else min(TASK_SECONDS, task.seconds)

    def _copy(self, task: CopyTask) -> Encoded:
        """Copy samples from an existing shard. If that cannot be read, they are encoded."""
        try:
            return task.copied()
        except (HeadraceError, OSError) as error:
            _log.warning("%s; %d samples are encoded again", error, len(task.samples))
        alone = (EncodingTask((sample,), 0.0) for sample in task.samples)
        return [self._encoder.encode_alone(field) for sample in alone for field in tasks_of_fields(sample)]


def _parts(task: CopyTask | EncodingTask) -> Sequence[CopyTask | EncodingTask]:
    """Parts of a task: one copy, or an encoding of each audio field."""
    return (task,) if isinstance(task, CopyTask) else tasks_of_fields(task)


def _by_sample(task: CopyTask | EncodingTask, results: Iterator[Encoded]) -> Iterator[Sequence[EncodedSpan]]:
    """The audio fields of each sample of a task, from the results of its parts."""
    if isinstance(task, CopyTask):
        found = _each(next(results), len(task.stored))
        num_fields = len(task.stored) // len(task.samples)
        return (found[start : start + num_fields] for start in range(0, len(found), num_fields))
    return zip(*(_each(next(results), len(task.samples)) for _ in _parts(task)), strict=True)


def _each(result: Encoded, count: int) -> Sequence[EncodedSpan]:
    """The results of a part; an error of its file is the result of all."""
    return [result] * count if isinstance(result, AudioError) else result


def _name(recording: Recording) -> tuple[str, str]:
    """Path and key that name a recording in rejections."""
    return recording.path, rejection_key(recording)


def _places(shards: Sequence[ShardEntry], planned: Sequence[Sequence[PlannedKey]]) -> dict[int, list[str]]:
    """Number of a shard → the keys that were planned for it."""
    numbers = [sequence_of(shard.name) for shard in shards]
    return {number: [entry.key for entry in keys] for number, keys in zip(numbers, planned, strict=True)}
