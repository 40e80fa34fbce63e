"""Encodes a sample of the frames of audio shards, to fit something to them. Imports torch."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from headrace.encoders.outputs import outputs_of
from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import plan_batches
from headrace.encoding.engine import Engine
from headrace.encoding.plans import EncodingOptions, NoLatents
from headrace.encoding.reading import EncodingJob
from headrace.encoding.sources import audio_shard
from headrace.encoding.windows import plan_windows
from headrace.errors import ConfigError
from headrace.output_kinds import OutputKind
from headrace.stores.storage import Storage


def sampled_frames(  # noqa: PLR0913, PLR0917 - where the audio is, what encodes it, and how much
    audio: Storage,
    shards: Sequence[str],
    field: str,
    encoder: Encoder,
    most_clips: int,
    frames_of_a_clip: int,
    stack: ExitStack,
) -> Tensor:
    """Frames (N, D), float32, of the clips whose keys have the smallest hashes; of each the first window's, evenly.

    Which frames are taken depends on the keys and lengths of the clips only.

    Args:
        audio: the folder of audio shards.
        shards: names of the shards.
        field: name of the audio field; empty for the first.
        encoder: the encoder.
        most_clips: the most clips, equally many of each shard.
        frames_of_a_clip: the most frames of a clip.
        stack: keeps the shards open.

    Raises:
        ConfigError: the encoder gives no frames.
    """
    place = next((n for n, output in enumerate(outputs_of(encoder)) if output.kind is OutputKind.FRAMES), None)
    if place is None:
        raise ConfigError("encoder kmeans: the inner encoder gives no frames; choose one that does")
    clips, of_a_shard = [], -(-most_clips // len(shards))
    for name in shards:
        found = stack.enter_context(audio_shard(audio, name, field)).clips
        clips += sorted(found, key=lambda clip: hashlib.sha256(clip.key.encode()).digest())[:of_a_shard]
    windows = [plan_windows(clip.num_frames_at(encoder.sample_rate_hz), encoder)[:1] for clip in clips]
    engine = Engine([encoder], "float32", EncodingOptions())
    batches = plan_batches(windows, engine.budget_frames, encoder.info.padded_to)
    made: dict[int, Tensor] = {}
    for encoded in engine.run([EncodingJob(0, clips, batch) for batch in batches]):
        for piece, values in encoded.rows:
            if not isinstance(values, NoLatents):
                made[piece.clip] = _evenly(values[place], frames_of_a_clip)
    return torch.cat([made[clip] for clip in sorted(made)])


def _evenly(frames: Tensor, most: int) -> Tensor:
    """At most this many of frames (T, D), at equal distances."""
    return frames[torch.arange(0, len(frames), -(-len(frames) // most))].float()
