"""From audio shards to published latent shards.

Owns the walk over a partition's shards: neighbouring ones are opened together as a group, so that their clips can be
sorted by length into common batches; each latent shard is published, beside the encoding, as soon as its last clip is
done. Memory holds the latents of the groups under way and no more.
"""

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import accumulate

from torch import Tensor

from headrace.encoders.protocol import Encoder, frame_rate_hz
from headrace.encoding.assembly import Assembly
from headrace.encoding.batches import plan_batches
from headrace.encoding.clips import Clip
from headrace.encoding.engine import Engine
from headrace.encoding.kept import KeptLatents
from headrace.encoding.lanes import EncodedJob
from headrace.encoding.payload import encode_payload
from headrace.encoding.plans import (
    AUDIO_SHARD_NOTE,
    ENCODER_NOTE,
    SECONDS_NOTE,
    EncodingRun,
    LatentPlan,
)
from headrace.encoding.reading import Job
from headrace.encoding.sources import AudioShard, audio_shard
from headrace.encoding.stats import EncodingStats
from headrace.encoding.windows import plan_windows
from headrace.index import FRAME_RATE_NOTE, SampleEntry, ShardIndex, TensorPlace
from headrace.ordered import map_in_order
from headrace.shardwriter import ShardWriter

_GROUP_BATCHES = 32  # of audio in a group: with lengths spread 1-30 s padding is 3-4%
_GROUP_BYTES = 512 << 20  # of latents in a group, as far as it has more than one shard
_PUBLISHING = 2  # shards on their way to the storage at a time
_BYTES_PER_NUMBER = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(slots=True)
class Group:
    """Shards that are encoded together.

    Attributes:
        plans: the latent shards to make.
        shards: the audio shards they are made of.
        clips: of all shards, end to end.
        assembly: joins their windows.
        kept: latents of clips that need not be encoded.
        whole: finished latents by clip, until their shard is published.
        stack: closes the audio shards.
    """

    plans: Sequence[LatentPlan]
    shards: tuple[AudioShard, ...]
    clips: tuple[Clip, ...]
    assembly: Assembly
    kept: dict[int, Tensor]
    stack: ExitStack
    whole: dict[int, Tensor] = field(default_factory=dict)
    _starts: list[int] = field(init=False)
    _left: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is done yet."""
        self._left = [len(shard.clips) for shard in self.shards]
        self._starts = [0, *accumulate(self._left)]

    def finish(self, clip: int, latents: Tensor) -> tuple[int, list[Tensor]] | None:
        """Take a clip's latents. Returns number and latents, in order, of the shard that this completes."""
        self.whole[clip] = latents
        shard = bisect_right(self._starts, clip) - 1
        self._left[shard] -= 1
        if self._left[shard]:
            return None
        return shard, [self.whole.pop(i) for i in range(*self._starts[shard : shard + 2])]

    @property
    def is_done(self) -> bool:
        """Whether every clip is."""
        return not any(self._left)


@dataclass(slots=True)
class ShardEncoding:
    """One partition's run: from plans to indexes of published shards."""

    engine: Engine
    route: EncodingRun
    _groups: dict[int, Group] = field(default_factory=dict)
    _opened: ExitStack = field(default_factory=ExitStack)
    _published: dict[str, ShardIndex] = field(default_factory=dict)
    _publishing: deque[tuple[str, Future[ShardIndex]]] = field(default_factory=deque)
    _publisher: ThreadPoolExecutor = field(init=False)
    _kept: KeptLatents = field(init=False)
    _num_kept: int = 0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        """Look for what is there where the route says so."""
        route = self.route
        self._kept = KeptLatents(route.audio, route.storage, self.encoder.fingerprint, route.dtype, route.held)

    @property
    def encoder(self) -> Encoder:
        """The encoder; all devices have the same."""
        return self.engine.encoders[0]

    def run(self, plans: Sequence[LatentPlan]) -> tuple[dict[str, ShardIndex], EncodingStats]:
        """Indexes of the shards by input digest, and figures."""
        with (
            self._opened,
            ThreadPoolExecutor(1, "headrace-open") as opener,
            ThreadPoolExecutor(1, "headrace-publish") as publisher,
        ):
            self._publisher = publisher
            groups = map_in_order(opener, self._open, plan_groups(plans, self.encoder, self.engine), window=1)
            with closing(self.engine.run(self._jobs(groups))) as results:  # its threads end before their files close
                for encoded in results:
                    self._take(encoded)
            self._await_published(0)
        stats = self.engine.meter.stats(self._seconds, self.engine.devices)
        return self._published, replace(stats, num_kept=self._num_kept)

    def _open(self, plans: Sequence[LatentPlan]) -> Group:
        """Fetch and check the audio shards of a group, and what is there of their latents."""
        with ExitStack() as stack:
            shards = tuple(stack.enter_context(audio_shard(self.route.audio, plan.audio_shard)) for plan in plans)
            clips = tuple(clip for shard in shards for clip in shard.clips)
            kept = dict(self._kept.of(clips))
            lengths = tuple(clip.num_frames_at(self.encoder.sample_rate_hz) for clip in clips)
            windows = tuple(
                () if number in kept else plan_windows(length, self.encoder) for number, length in enumerate(lengths)
            )
            held = stack.pop_all()
        self._opened.callback(held.close)  # for groups that an error leaves open; closing twice does nothing
        return Group(plans, shards, clips, Assembly(windows, lengths), kept, held)

    def _jobs(self, groups: Iterator[Group]) -> Iterator[Job]:
        for number, group in enumerate(groups):
            self._groups[number] = group
            self._num_kept += len(group.kept)
            while group.kept:
                self._finish(number, *group.kept.popitem())
            for batch in plan_batches(group.assembly.windows, self.engine.budget_frames):
                yield Job(number, group.clips, batch)

    def _take(self, encoded: EncodedJob) -> None:
        """Put latents where they belong."""
        group = self._groups[encoded.group]
        for piece, hidden in encoded.rows:
            latents = group.assembly.add(piece, hidden, self.encoder)
            if latents is not None:
                self._seconds += group.clips[piece.clip].seconds
                self._finish(encoded.group, piece.clip, latents)

    def _finish(self, number: int, clip: int, latents: Tensor) -> None:
        """A clip's latents are whole; a shard that they complete is published beside what goes on."""
        self.route.progress(1)
        group = self._groups[number]
        if complete := group.finish(clip, latents):
            shard, parts = complete
            plan = group.plans[shard]
            task = self._publisher.submit(self._publish, plan, group.shards[shard], parts)
            self._publishing.append((plan.input_digest, task))
        if group.is_done:
            self._groups.pop(number).stack.close()
        self._await_published(_PUBLISHING)

    def _await_published(self, num_left: int) -> None:
        """Note the shards that are published, until no more than `num_left` are on their way."""
        while len(self._publishing) > num_left or (self._publishing and self._publishing[0][1].done()):
            digest, task = self._publishing.popleft()
            self._published[digest] = task.result()

    def _publish(self, plan: LatentPlan, shard: AudioShard, latents: list[Tensor]) -> ShardIndex:
        """Write one latent shard: `<key>.pth` and `<key>.json` for each of the audio shard's samples, in its order."""
        with ShardWriter(self.route.storage, plan.place) as writer:
            for clip, text, hidden in zip(shard.clips, shard.texts, latents, strict=True):
                payload, about = encode_payload(hidden), sample_json(text, self.encoder)
                facts = SampleEntry(
                    clip.key, {}, len(hidden), tensor=TensorPlace(payload.start, payload.stop, *hidden.shape)
                )
                fields = {"pth": (payload.blob, len(payload.blob)), "json": (about, len(about))}
                writer.add(clip.key, fields, facts)
            notes = {
                AUDIO_SHARD_NOTE: plan.audio_shard,
                ENCODER_NOTE: self.encoder.fingerprint,
                FRAME_RATE_NOTE: repr(frame_rate_hz(self.encoder)),
                SECONDS_NOTE: repr(round(shard.seconds, 6)),
            }
            return writer.publish(plan.input_digest, notes, self.route.dtype)


def encode_shards(
    plans: Sequence[LatentPlan], encoders: Sequence[Encoder], route: EncodingRun
) -> tuple[dict[str, ShardIndex], EncodingStats]:
    """Encode and publish these shards. Returns their indexes by input digest, and figures.

    Args:
        plans: the latent shards to make, in their order.
        encoders: the same encoder on each device.
        route: from where to where, and how.

    Raises:
        SampleError: a sample cannot be read, or its latents are not finite.
        IntegrityError: an audio shard is damaged.
        BuildError: one window of one sample does not fit a device's memory.
    """
    return ShardEncoding(Engine(encoders, route.dtype, route.options), route).run(plans)


def plan_groups(plans: Sequence[LatentPlan], encoder: Encoder, engine: Engine) -> list[list[LatentPlan]]:
    """Neighbouring shards together, up to the audio of 32 batches and 512 MiB of latents; at least one. Pure."""
    bytes_per_second = frame_rate_hz(encoder) * encoder.latent_dim * _BYTES_PER_NUMBER[engine.dtype]
    batch_seconds = engine.budget_frames / encoder.sample_rate_hz
    most_seconds = min(_GROUP_BATCHES * batch_seconds * len(engine.encoders), _GROUP_BYTES / bytes_per_second)
    groups: list[list[LatentPlan]] = []
    seconds = 0.0
    for plan in plans:
        if not groups or seconds + plan.seconds > most_seconds:
            groups.append([])
            seconds = 0.0
        groups[-1].append(plan)
        seconds += plan.seconds
    return groups


def sample_json(audio_json: bytes, encoder: Encoder) -> bytes:
    """The latent sample's JSON: the audio sample's, with the encoder and its frame rate under `headrace`."""
    content = json.loads(audio_json)
    facts = {"encoder": encoder.fingerprint, "frame_rate_hz": frame_rate_hz(encoder)}
    content["headrace"] = {**content.get("headrace", {}), **facts}
    return json.dumps(content, ensure_ascii=False).encode()
