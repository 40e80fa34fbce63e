"""Shared by test_rejections and the tests beside it."""

import torch

from headrace.encoders.protocol import EncoderInfo
from tests.support.latent_builds import Broken


class Broken30(Broken):
    """Encoder `Broken` for recordings that are cut into windows of 0.4 s: a loud window gives no number."""

    info = EncoderInfo(context=1600, window=6400, overlap=4800, is_concurrent=True)

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, num_latent = super().encode(batch, lengths)
        hidden[batch[:, 0].abs().amax(1) > 0.9, 0, 0] = self._values[0]
        return hidden, num_latent
