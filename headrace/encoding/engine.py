"""Running an encoder over batches: decode on threads, compute, hand back results while the next batch runs."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import Batch, Piece
from headrace.encoding.clips import AudioForm, Clip, read_clip
from headrace.encoding.payload import torch_dtype
from headrace.encoding.plans import EncodingOptions, LatentDtype
from headrace.errors import SampleError
from headrace.ordered import map_in_order

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """A batch and the clips that its pieces are cut from."""

    clips: Sequence[Clip]
    batch: Batch
    group: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """Latents of one piece, (T, D) on the CPU in the dtype they are stored in."""

    group: int
    piece: Piece
    hidden: Tensor


def encode_jobs(
    jobs: Iterable[Job], encoders: Sequence[Encoder], dtype: LatentDtype, options: EncodingOptions
) -> Iterator[Encoded]:
    """Latents of every piece of every job.

    Raises:
        SampleError: a clip cannot be read, or its latents are not finite.
    """
    encoder = encoders[0]
    form = AudioForm(encoder.sample_rate_hz, encoder.num_channels)
    with ThreadPoolExecutor(options.num_threads, "decode") as pool:
        for job, audio in map_in_order(pool, lambda job: (job, decode(job, form)), jobs, window=2 * options.num_threads):
            lengths = torch.tensor([piece.window.num_frames for piece in job.batch.pieces])
            hidden, num_latent = encoder.encode(audio, lengths)
            for row, piece in enumerate(job.batch.pieces):
                latents = hidden[row, : int(num_latent[row])].to(torch_dtype(dtype))
                if not bool(torch.isfinite(latents).all()):
                    raise SampleError(f"{job.clips[piece.clip].shard}: {job.clips[piece.clip].key}: not finite")
                yield Encoded(job.group, piece, latents)


def decode(job: Job, form: AudioForm) -> Tensor:
    """The batch's audio, float32 (B, C, N)."""
    audio = torch.zeros(len(job.batch.pieces), form.num_channels, job.batch.num_frames)
    for row, piece in enumerate(job.batch.pieces):
        samples = read_clip(job.clips[piece.clip], form, piece.window.start, piece.window.stop)
        audio[row, :, : samples.shape[1]] = torch.from_numpy(samples)
    return audio
