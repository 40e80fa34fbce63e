"""The interface of encoders: `Encoder`, and the facts about one that the pipeline needs, `EncoderInfo`.

`tests/encoders` checks every encoder against it. Torch is imported for types only, so that fingerprints can be computed
and stale latents can be found without loading it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    import torch

TokenIds: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers of the tokens of one text, int64 (N,)."""


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """Facts about an encoder that the pipeline needs before it runs the encoder.

    Attributes:
        context: distance in PCM frames over which a cut changes latents. Latents that are nearer to a cut are dropped
            when a recording is encoded in windows.
        window: longest input in PCM frames; longer recordings are cut into windows.
        overlap: PCM frames that neighbouring windows share: whole hops, more than twice the context (in whole hops).
        normalizes: whether the input must have zero mean and unit variance over the recording (wav2vec2's family). The
            pipeline normalises before it cuts windows; otherwise windows would differ in loudness.
        is_concurrent: whether `encode` may be called from several threads at once. If so, a CPU encodes one batch per
            core at the same time; otherwise one batch at a time uses all cores.
        padded_to: PCM frames to which the encoder itself pads every row (Whisper: 30 s); 0 if it does not. A shorter
            row costs the memory and the time of a row of this length.
        length_step: PCM frames to which the encoder rounds lengths up, if it computes rows of one rounded length at a
            time; 0 if rows of all lengths share a forward pass. Batches then have rows of one length, so that each is
            one forward pass.
        batch_tolerance: how much a row's latents may depend on the rest of its batch, as a share of the largest frame.
            Float32 rounding is allowed anyway; half precision needs more.
        is_compiled: whether the network runs through `torch.compile`, which changes results by rounding.
    """

    context: int
    window: int
    overlap: int
    normalizes: bool = False
    is_concurrent: bool = False
    padded_to: int = 0
    length_step: int = 0
    batch_tolerance: float = 0.0
    is_compiled: bool = False


@runtime_checkable
class Encoder(Protocol):
    """A frozen network, or a transform, that computes one vector per time step from audio.

    Latent frame t belongs to PCM frame `t * hop`: input that begins `k * hop` later gives the same latents from frame k
    on, except within `info.context` of its beginning. Results depend neither on the other rows of the batch nor on the
    padding.

    An encoder of other or of several outputs has an attribute `outputs` (`headrace.encoders.outputs`), and its `encode`
    returns a dict: for each output its values (B, T, K) and lengths as below, or for a vector the values (B, D) alone.
    `num_latent_frames` and `latent_dim` are then not asked for, and `hop` is a multiple of the hops of all outputs.
    """

    @property
    def sample_rate_hz(self) -> int:
        """Sample rate of the input."""

    @property
    def num_channels(self) -> int:
        """Channels of the input."""

    @property
    def hop(self) -> int:
        """PCM frames from one latent frame to the next."""

    @property
    def latent_dim(self) -> int:
        """D: size of one latent frame."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of everything that the results depend on: weights, version of the code, settings."""

    @property
    def device(self) -> str:
        """Device of the encoder, for example `cpu` or `cuda:0`."""

    @property
    def info(self) -> EncoderInfo:
        """Facts that the pipeline needs: windows, normalisation, threads."""

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


class TextEncoder(Encoder, Protocol):
    """An encoder of texts instead of audio: its `encode` takes numbers of tokens, int64 (B, 1, N), as audio.

    Results depend neither on the other rows of the batch nor on the padding. `info.window` is the most tokens of a
    text. An output without a hop has no time, because tokens follow none.
    """

    def token_ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """Numbers of the tokens of each text, at most `info.window`; empty where a text has none."""


def is_of_texts(encoder: Encoder) -> TypeGuard[TextEncoder]:
    """Whether this is a `TextEncoder`. Asked by name: `isinstance` does not see what `__getattr__` hands on."""
    return hasattr(encoder, "token_ids")


def frame_rate_hz(encoder: Encoder) -> float:
    """Latent frames per second."""
    return encoder.sample_rate_hz / encoder.hop
