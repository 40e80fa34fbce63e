"""An encoder of one's own: the level of each hundredth of a second, in dBFS.

latents:
  - {name: levels, encoder: {kind: loudness, floor_dbfs: -60}}
"""

from collections.abc import Mapping
from typing import Any

import torch


class Loudness:
    """RMS level of steps of 10 ms, never below a floor.

    Attributes:
        fingerprint: changes when the results do: latents of another fingerprint are encoded again.
    """

    sample_rate_hz, num_channels, hop, latent_dim = 16_000, 1, 160, 1

    def __init__(self, device: str, floor_dbfs: float = -80.0) -> None:
        self.device = device
        self.fingerprint = self.fingerprint_of({"floor_dbfs": floor_dbfs})
        self._floor = 10 ** (floor_dbfs / 20)

    @staticmethod
    def fingerprint_of(settings: Mapping[str, Any]) -> str:
        """The fingerprint, without loading anything: sensors ask for it every few seconds."""
        return f"loudness, version 1, {float(settings.get('floor_dbfs', -80))}"

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 (B, 1, N) on the device, int64 (B,) on the CPU → levels (B, T, 1), int64 (B,)."""
        steps = torch.nn.functional.pad(batch[:, 0], (0, -batch.shape[2] % self.hop)).unflatten(1, (-1, self.hop))
        rms = steps.square().mean(2, keepdim=True).sqrt()
        return 20 * rms.clamp(min=self._floor).log10(), (lengths + self.hop - 1) // self.hop
