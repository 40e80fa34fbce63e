"""Encodes audio shards and writes the latent shards of a partition.

Neighbouring shards are opened together as a group, so that their clips can be sorted by length into common batches.
Other threads write each latent shard as soon as its last clip is encoded. Only the latents of the groups under way and
of shards that wait to be written are in memory.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from headrace.encoders.protocol import Encoder
from headrace.encoding.alone import AloneCheck
from headrace.encoding.assembly import Assembly
from headrace.encoding.clips import AudioClip
from headrace.encoding.device_worker import EncodedJob
from headrace.encoding.engine import Engine
from headrace.encoding.kept import KeptLatents
from headrace.encoding.made import Made
from headrace.encoding.plans import (
    EncodingRun,
    LatentPlan,
)
from headrace.encoding.publisher import LatentPublisher, stored_bytes_per_second
from headrace.encoding.publishing import Saved, stored_outputs
from headrace.encoding.reading import EncodingJob
from headrace.encoding.sources import AudioShard, audio_shard
from headrace.encoding.stats import EncodingStats
from headrace.encoding.windows import plan_windows
from headrace.format.indexes.index import ShardIndex
from headrace.format.manifests.made_by import MadeBy, as_note
from headrace.format.tensors.outputs import Output
from headrace.ordered import TaskThreads, map_in_order

_GROUP_BATCHES = 32  # of audio in a group: with lengths spread 1-30 s padding is 3-4%
_GROUP_BYTES = 512 << 20  # of latents in a group; a single shard may have more


@dataclass(slots=True)
class ShardGroup:
    """Shards that are encoded together.

    Attributes:
        plans: the latent shards to write.
        shards: the audio shards that they are made from.
        clips: the clips of all shards, one shard after another.
        assembly: joins the latents of windows to latents of clips.
        kept: results of an earlier build, by position in `clips`; these clips are not encoded.
        stack: closes the audio shards.
        whole: results of finished clips whose shard is not finished.
        copied: the clips that were in `kept`.
    """

    plans: Sequence[LatentPlan]
    shards: tuple[AudioShard, ...]
    clips: tuple[AudioClip, ...]
    assembly: Assembly
    kept: dict[int, Made]
    stack: ExitStack
    whole: dict[int, Future[Saved]] = field(default_factory=dict)
    copied: frozenset[int] = field(init=False)
    _starts: list[int] = field(init=False)
    _left: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Count the clips of each shard."""
        self.copied = frozenset(self.kept)
        self._left = [len(shard.clips) for shard in self.shards]
        self._starts = [0, *accumulate(self._left)]

    def finish(self, clip: int, saved: Future[Saved]) -> tuple[int, list[Future[Saved]]] | None:
        """Add the result of a clip. Returns number and results, in order, of the shard that this completes, or None."""
        self.whole[clip] = saved
        shard = bisect_right(self._starts, clip) - 1
        self._left[shard] -= 1
        if self._left[shard]:
            return None
        return shard, [self.whole.pop(i) for i in range(*self._starts[shard : shard + 2])]

    def copied_keys(self, shard: int) -> tuple[list[str], bool]:
        """Keys of a shard's clips whose results are copied, and whether these are all its clips."""
        places = range(*self._starts[shard : shard + 2])
        keys = [self.clips[place].key for place in places if place in self.copied]
        return keys, len(keys) == len(places)

    @property
    def is_done(self) -> bool:
        """Whether every clip has a result."""
        return not any(self._left)


@dataclass(slots=True)
class ShardEncoding:
    """Encodes and writes the planned shards of one partition.

    Attributes:
        engine: runs the encoders.
        route: the folders, dtype and options.
        outputs: the outputs of the encoder, as shards describe them.
    """

    engine: Engine
    route: EncodingRun
    _groups: dict[int, ShardGroup] = field(default_factory=dict)
    _opened: ExitStack = field(default_factory=ExitStack)
    _publisher: LatentPublisher = field(init=False)
    _fetchers: ThreadPoolExecutor = field(init=False)
    outputs: tuple[Output, ...] = field(init=False)
    _kept: KeptLatents = field(init=False)
    _alone: AloneCheck = field(init=False)
    _num_kept: int = 0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        """Prepare the reuse of existing latents, and the check that rows do not depend on their batch."""
        route = self.route
        self.outputs = stored_outputs(self.encoder, route.dtype)
        self._kept = KeptLatents(
            route.audio, route.storage, self.encoder.fingerprint, route.dtype, self.outputs, route.held
        )
        self._alone = AloneCheck(self.encoder, route.dtype)
        self._publisher = LatentPublisher(self.encoder, self.outputs, route)

    @property
    def encoder(self) -> Encoder:
        """The encoder; it is the same on all devices."""
        return self.engine.encoders[0]

    def run(self, plans: Sequence[LatentPlan]) -> tuple[dict[str, ShardIndex], EncodingStats]:
        """Write the shards. Returns their indexes by input digest, and figures."""
        shared = self.route.shared
        num_fetching = self.engine.options.fetching_threads(len(self.engine.encoders))
        with (
            self._opened,
            self._publisher,
            TaskThreads(1, "headrace-open") as opener,
            TaskThreads(num_fetching, "headrace-fetch") as fetchers,  # ends first: `opener` waits for it
            shared or nullcontext(),  # is left before that: `opener` may wait for other encodings
        ):
            self._fetchers = fetchers
            if shared:
                shared.begin({plan.audio_shard: plan.place.sequence for plan in plans})
            groups = map_in_order(opener, self._open, plan_groups(plans, self.encoder, self.engine), window=1)
            opened = self.engine.meter.waits.each("opening", groups)
            results = self.engine.run(self._jobs(opened), shared.read if shared else None)
            with closing(results):  # its threads end before the files are closed
                for encoded in results:
                    for passed in self._alone.passed(encoded):
                        self._take(passed)
            with self.engine.meter.waits.on("publishing"):
                indexes = self._publisher.indexes()
        stats = self.engine.meter.stats(self._seconds, self.engine.devices)
        return indexes, replace(stats, num_kept=self._num_kept, alone=self._alone.comparison)

    def _open(self, plans: Sequence[LatentPlan]) -> ShardGroup:
        """Fetch and check the audio shards of a group, and read the latents that are reused."""
        if self.route.shared:
            self.route.shared.wait_for_others()
        with ExitStack() as stack:
            shards = self._fetched(plans, stack)
            clips = tuple(clip for shard in shards for clip in shard.clips)
            kept = dict(self._kept.of(clips))
            lengths = tuple(clip.num_frames_at(self.encoder.sample_rate_hz) for clip in clips)
            windows = tuple(
                () if number in kept else plan_windows(length, self.encoder) for number, length in enumerate(lengths)
            )
            held = stack.pop_all()
        self._opened.callback(held.close)  # closes the group after an error; a second close does nothing
        return ShardGroup(plans, shards, clips, Assembly(windows, lengths), kept, held)

    def _fetched(self, plans: Sequence[LatentPlan], stack: ExitStack) -> tuple[AudioShard, ...]:
        """The audio shards of a group, several at a time; `stack` closes them."""
        opened = self.route.shared.shard if self.route.shared else partial(audio_shard, self.route.audio)
        fetches = [
            self._fetchers.submit(stack.enter_context, opened(plan.audio_shard, self.route.audio_field))
            for plan in plans
        ]
        for fetch in fetches:  # also if one fails: none may enter a stack that is closed
            with suppress(CancelledError):
                fetch.exception()
        return tuple(fetch.result() for fetch in fetches)

    def _jobs(self, groups: Iterator[ShardGroup]) -> Iterator[EncodingJob]:
        for number, group in enumerate(groups):
            self._groups[number] = group
            self._num_kept += len(group.kept)
            while group.kept:
                self._finish(number, *group.kept.popitem())
            batches = self.engine.batches(group.assembly.windows)
            yield from self._alone.with_one_alone([EncodingJob(number, group.clips, batch) for batch in batches])

    def _take(self, encoded: EncodedJob) -> None:
        """Add the latents of a batch to their clips."""
        group = self._groups[encoded.group]
        for piece, hidden in encoded.rows:
            latents = group.assembly.add(piece, hidden, self.encoder)
            if latents is not None:
                self._seconds += group.clips[piece.clip].seconds
                self._finish(encoded.group, piece.clip, latents)

    def _finish(self, number: int, clip: int, latents: Made) -> None:
        """Add the result of a clip. A shard that this completes is written by other threads."""
        self.route.progress(1)
        group = self._groups[number]
        if complete := group.finish(clip, self._publisher.save(latents)):
            shard, samples = complete
            note = as_note(self._makers(*group.copied_keys(shard)))
            with self.engine.meter.waits.on("publishing"):
                self._publisher.add(group.plans[shard], group.shards[shard], samples, note)
        if group.is_done:
            self._groups.pop(number).stack.close()

    def _makers(self, copied: Sequence[str], is_all: bool) -> set[MadeBy]:  # noqa: FBT001 - of `copied_keys`
        """Devices and software of a shard's latents: the present ones, and those of the shards that it copies from."""
        return self._kept.makers(copied) | (set() if is_all else {self.engine.made_by})


def encode_shards(
    plans: Sequence[LatentPlan], encoders: Sequence[Encoder], route: EncodingRun
) -> tuple[dict[str, ShardIndex], EncodingStats]:
    """Encode and write latent shards. Returns their indexes by input digest, and figures.

    Args:
        plans: the latent shards to write, in order.
        encoders: the same encoder on each device.
        route: the folders, dtype and options.

    Raises:
        SampleError: a sample cannot be decoded.
        IntegrityError: an audio shard is damaged.
        BuildError: one window of a sample does not fit a device's memory, latents depend on their batch, or the encoder
            fails.
    """
    return ShardEncoding(Engine(encoders, route.dtype, route.options, is_alone=route.shared is None), route).run(plans)


def plan_groups(plans: Sequence[LatentPlan], encoder: Encoder, engine: Engine) -> list[list[LatentPlan]]:
    """Group neighbouring shards up to the audio of 32 batches and 512 MiB of latents; at least one per group. Pure."""
    bytes_per_second = stored_bytes_per_second(encoder, engine.dtype)
    batch_seconds = engine.budget_frames / encoder.sample_rate_hz
    most_seconds = min(_GROUP_BATCHES * batch_seconds * len(engine.encoders), _GROUP_BYTES / max(1, bytes_per_second))
    groups: list[list[LatentPlan]] = []
    seconds = 0.0
    for plan in plans:
        if not groups or seconds + plan.seconds > most_seconds:
            groups.append([])
            seconds = 0.0
        groups[-1].append(plan)
        seconds += plan.seconds
    return groups
