"""A test encoder whose latents overflow float16 where a recording is loud."""

import torch
from torch import Tensor

from headrace.encoders import EncoderInfo


class Loud:
    """Gives the peak of every 10 ms, or a million where the peak is above 0.9."""

    sample_rate_hz, num_channels, hop, latent_dim = 8000, 1, 80, 2
    fingerprint = "loud 1"
    info = EncoderInfo(context=80, window=240_000, overlap=16_000)

    def __init__(self, device: str) -> None:
        self.device = device

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.nn.functional.pad(batch[:, 0], (0, -batch.shape[2] % self.hop)).unflatten(1, (-1, self.hop))
        peaks = steps.abs().amax(2, keepdim=True).repeat(1, 1, 2)
        return torch.where(peaks > 0.9, 1e6, peaks), (lengths + self.hop - 1) // self.hop
