"""A custom encoder: one vector for each recording, the mean of another encoder's frames. The demo has such vectors.

    latents:
      - {name: timbre, encoder: {kind: custom, encoder: "examples.mean_vector:MeanVector", of: {kind: crepe}}}

Recordings that sound alike have vectors with nearly the same direction: search them by cosine similarity.
"""

from collections.abc import Mapping
from typing import Any

import torch

from headrace import encoders


class MeanVector:
    """Mean over time of the frames of another encoder.

    Attributes:
        outputs: the output `embedding`, a vector as wide as the other encoder's frames.
        fingerprint: changes with this code (its number) and with the other encoder.
        info: windows and threads, as the other encoder needs them.
    """

    def __init__(self, device: str, of: Mapping[str, Any]) -> None:
        self.fingerprint = self.fingerprint_of({"of": of})
        self._frames = encoders.load(str(of["kind"]), _settings(of), device)
        self.device, self.info = device, self._frames.info
        self.sample_rate_hz, self.num_channels = self._frames.sample_rate_hz, self._frames.num_channels
        self.outputs = {"embedding": {"kind": "vector", "dim": self._frames.latent_dim}}

    @staticmethod
    def fingerprint_of(settings: Mapping[str, Any]) -> str:
        """The fingerprint, without loading the weights: sensors ask for it every few seconds."""
        of = settings["of"]
        return f"mean of frames, version 1, {encoders.fingerprint(str(of['kind']), _settings(of))}"

    @torch.inference_mode()
    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
        """float32 (B, C, N) on the device, int64 (B,) on the CPU → the vectors (B, D)."""
        hidden, num_frames = self._frames.encode(batch, lengths)  # zeros behind each row's frames
        return {"embedding": hidden.sum(1) / num_frames.to(hidden.device)[:, None]}


def _settings(of: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in of.items() if name != "kind"}
