"""From audio shards to published latent shards.

Owns the walk over a partition's shards: groups of neighbouring ones are opened together, so that their clips can be
sorted by length into common batches; each latent shard is published as soon as its last clip is done. Memory holds the
latents of the groups under way and no more.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from torch import Tensor

from headrace.encoders.protocol import Encoder, frame_rate_hz
from headrace.encoding.assembly import Assembly
from headrace.encoding.batches import plan_batches
from headrace.encoding.clips import Clip
from headrace.encoding.engine import Job, encode_jobs
from headrace.encoding.payload import encode_payload
from headrace.encoding.plans import (
    AUDIO_SHARD_NOTE,
    ENCODER_NOTE,
    FRAME_RATE_NOTE,
    SECONDS_NOTE,
    EncodingOptions,
    LatentDtype,
    LatentPlan,
)
from headrace.encoding.sources import AudioShard, audio_shard
from headrace.encoding.stats import EncodingStats
from headrace.encoding.windows import plan_windows
from headrace.index import SampleEntry, ShardIndex
from headrace.shardwriter import ShardWriter
from headrace.storage import Storage

_GROUP_BATCHES = 32  # of a group's audio: with lengths spread 1-30 s padding stays near 3%


def encode_shards(  # noqa: PLR0913 - what, by what, from where to where, how fast, and who watches
    plans: Sequence[LatentPlan],
    encoders: Sequence[Encoder],
    dtype: LatentDtype,
    audio: Storage,
    storage: Storage,
    options: EncodingOptions,
    progress: Callable[[int], None],
) -> tuple[dict[str, ShardIndex], EncodingStats]:
    """Encode and publish these shards. Returns their indexes by input digest, and figures."""
    started = time.perf_counter()
    encoder = encoders[0]
    published: dict[str, ShardIndex] = {}
    seconds = 0.0
    for plan in plans:
        with ExitStack() as stack:
            shard = stack.enter_context(audio_shard(audio, plan.audio_shard))
            lengths = tuple(clip.num_frames_at(encoder.sample_rate_hz) for clip in shard.clips)
            windows = tuple(plan_windows(length, encoder) for length in lengths)
            budget = round((options.batch_seconds or 60) * encoder.sample_rate_hz)
            jobs = [Job(shard.clips, batch, 0) for batch in plan_batches(windows, budget)]
            assembly = Assembly(windows, lengths)
            whole: dict[int, Tensor] = {}
            for encoded in encode_jobs(jobs, encoders, dtype, options):
                latents = assembly.add(encoded.piece, encoded.hidden, encoder)
                if latents is not None:
                    whole[encoded.piece.clip] = latents
                    progress(1)
            published[plan.input_digest] = publish(plan, shard, whole, encoder, dtype, storage)
            seconds += shard.seconds
    return published, EncodingStats(audio_seconds=seconds, wall_seconds=time.perf_counter() - started, devices=("cpu",))


def publish(  # noqa: PLR0913
    plan: LatentPlan, shard: AudioShard, latents: dict[int, Tensor], encoder: Encoder, dtype: LatentDtype, storage: Storage
) -> ShardIndex:
    """Write one latent shard: `<key>.pth` and `<key>.json` for each of the audio shard's samples, in its order."""
    with ShardWriter(storage, plan.place) as writer:
        for i, clip in enumerate(shard.clips):
            payload = encode_payload(latents[i])
            text = sample_json(shard.texts[i], encoder)
            num_latent, dim = latents[i].shape
            facts = SampleEntry(clip.key, {}, num_latent, tensor=(payload.start, payload.stop, num_latent, dim))
            writer.add(clip.key, {"pth": (payload.blob, len(payload.blob)), "json": (text, len(text))}, facts)
        notes = {
            AUDIO_SHARD_NOTE: plan.audio_shard,
            ENCODER_NOTE: encoder.fingerprint,
            FRAME_RATE_NOTE: repr(frame_rate_hz(encoder)),
            SECONDS_NOTE: repr(round(shard.seconds, 6)),
        }
        return writer.publish(plan.input_digest, notes, dtype)


def sample_json(audio_json: bytes, encoder: Encoder) -> bytes:
    """The latent sample's JSON: the audio sample's, with the encoder and its frame rate under `headrace`."""
    content = json.loads(audio_json)
    facts = {"encoder": encoder.fingerprint, "frame_rate_hz": frame_rate_hz(encoder)}
    content["headrace"] = {**content.get("headrace", {}), **facts}
    return json.dumps(content, ensure_ascii=False).encode()
