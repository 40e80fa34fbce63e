"""An encoder of one's own with several outputs, each with its kind and its pace.

latents:
  - {name: envelope, encoder: {kind: envelope, num_steps: 64}}
"""

import torch


class Envelope:
    """The envelope as codes every 20 ms, and as a vector of its mean and largest value."""

    sample_rate_hz, num_channels = 16_000, 1

    def __init__(self, device: str, num_steps: int = 256) -> None:
        self.device, self.num_steps = device, num_steps
        self.fingerprint = f"envelope, version 1, {num_steps}"
        self.outputs = {
            "codes": {"kind": "codes", "hop": 320, "num_codebooks": 1},
            "embedding": {"kind": "vector", "dim": 2},
        }

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> dict[str, object]:
        """float32 (B, 1, N), int64 (B,) → codes (B, T, 1) with their lengths, and the vectors (B, 2)."""
        size = batch.abs()[:, 0]
        steps = torch.nn.functional.pad(size, (0, -size.shape[1] % 320)).unflatten(1, (-1, 320))
        codes = (steps.amax(2, keepdim=True) * self.num_steps).long().clamp(max=self.num_steps - 1)
        mean = size.sum(1) / lengths.to(size.device)  # behind a recording are zeros
        return {"codes": (codes, (lengths + 319) // 320), "embedding": torch.stack([mean, size.amax(1)], 1)}
