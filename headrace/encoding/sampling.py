"""Encodes a sample of the frames of audio shards, to fit something to them. Imports torch."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from headrace.encoders.outputs import outputs_of
from headrace.encoders.protocol import Encoder
from headrace.encoding.clips import AudioClip
from headrace.encoding.engine import Engine
from headrace.encoding.plans import EncodingOptions, NoLatents
from headrace.encoding.reading import EncodingJob
from headrace.encoding.sources import sample_clip
from headrace.encoding.windows import plan_windows
from headrace.errors import BuildError, ConfigError
from headrace.format.indexes.index_files import read_index
from headrace.output_kinds import OutputKind
from headrace.stores.storage import Storage


def sampled_frames(  # noqa: PLR0913, PLR0917 - where the audio is, what encodes it, and how much
    audio: Storage,
    shards: Sequence[str],
    field: str,
    encoder: Encoder,
    most_clips: int,
    frames_of_a_clip: int,
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

    Raises:
        ConfigError: the encoder gives no frames.
        BuildError: it gives none for any of the clips.
    """
    place = next((n for n, output in enumerate(outputs_of(encoder)) if output.kind is OutputKind.FRAMES), None)
    if place is None:
        raise ConfigError("encoder kmeans: the inner encoder gives no frames; choose one that does")
    found: list[Tensor] = []
    of_a_shard, left = -(-most_clips // len(shards)), most_clips
    for name in shards:
        index = read_index(audio, name)
        rows = sorted(range(len(index)), key=lambda row: hashlib.sha256(index.key(row).encode()).digest())
        rows = rows[: min(of_a_shard, left)]
        left -= len(rows)
        with ExitStack() as stack:
            clips = [stack.enter_context(sample_clip(audio, index, row, field)) for row in rows]
            found += [_evenly(frames[place], frames_of_a_clip) for frames in _of_first_windows(encoder, clips)]
    found = [frames for frames in found if len(frames)]
    if not found:
        raise BuildError(f"{audio.uri}: the encoder gives no frames for the audio that centroids are fitted to")
    return torch.cat(found)


def _of_first_windows(encoder: Encoder, clips: Sequence[AudioClip]) -> list[tuple[Tensor, ...]]:
    """The outputs of the first windows of clips, in their order, without those that have none."""
    engine = Engine([encoder], "float32", EncodingOptions())
    windows = [plan_windows(clip.num_frames_at(encoder.sample_rate_hz), encoder)[:1] for clip in clips]
    jobs = [EncodingJob(0, clips, batch) for batch in engine.batches(windows)]
    made = {piece.clip: values for encoded in engine.run(jobs) for piece, values in encoded.rows}
    ordered = (made[number] for number in range(len(clips)))
    return [values for values in ordered if not isinstance(values, NoLatents)]


def _evenly(frames: Tensor, most: int) -> Tensor:
    """At most this many of frames (T, D), at equal distances."""
    return frames[:: max(1, -(-len(frames) // most))].float()
