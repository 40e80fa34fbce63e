"""What every encoder of latents promises; `tests/encoders` holds each of them to it.

Owns the protocol and the arithmetic that follows from it. It imports torch for types only, so that fingerprints can be
computed, and stale latents found, without loading it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """What the pipeline must know of an encoder before it runs.

    Attributes:
        context: PCM frames at a cut edge of the input whose latents feel what lies beyond the cut; trimmed when a
            recording is encoded in windows.
        window: PCM frames that it is given at a time; longer recordings are cut into windows.
        overlap: PCM frames that neighbouring windows share: whole hops, more than twice the context (in whole hops).
        normalizes: whether it wants zero mean and unit variance over the recording (wav2vec2's family). The pipeline
            does it before it cuts windows, or the windows would differ in loudness.
        is_concurrent: whether `encode` may be called from several threads at once. On a CPU it then is, with one core
            for each batch; otherwise one batch at a time has all of them.
    """

    context: int
    window: int
    overlap: int
    normalizes: bool = False
    is_concurrent: bool = False


@runtime_checkable
class Encoder(Protocol):
    """A frozen network, or a transform, from audio to one vector per step.

    Latent frame t belongs to PCM frame `t * hop`, so input that begins `k * hop` later gives the same latents from k on
    (but for `info.context`). Results do not depend on which other rows are in the batch, nor on the padding.
    """

    @property
    def sample_rate_hz(self) -> int:
        """Rate of the audio that it takes."""

    @property
    def num_channels(self) -> int:
        """Channels of the audio that it takes."""

    @property
    def hop(self) -> int:
        """PCM frames from one latent frame to the next."""

    @property
    def latent_dim(self) -> int:
        """D."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all that its results depend on: weights, version of its code, settings."""

    @property
    def device(self) -> str:
        """Where it computes: `cpu`, `cuda:0`."""

    @property
    def info(self) -> EncoderInfo:
        """How it wants long recordings cut."""

    def num_latent_frames(self, num_frames: int) -> int:
        """T for an input of `num_frames` PCM frames; at least 1."""

    def encode(self, batch: "torch.Tensor", lengths: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
        """Latents of a batch.

        Args:
            batch: float32 (B, C, N) on the encoder's device, zeros behind each row's length.
            lengths: int64 (B,) on the CPU, PCM frames of each row, at least 1.

        Returns:
            Hidden states (B, T, D), zeros behind each row's length, and int64 (B,) latent frames on the CPU.
        """


def frame_rate_hz(encoder: Encoder) -> float:
    """Latent frames per second."""
    return encoder.sample_rate_hz / encoder.hop
