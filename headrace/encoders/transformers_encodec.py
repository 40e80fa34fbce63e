"""The EnCodec family of `kind: transformers`. Imports torch, but not transformers."""

from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device


class Encodec:
    """EnCodec's encoder, before quantisation. It has an output and no hidden states.

    Input is padded with zeros to whole hops; otherwise the model would mirror the end of a row, which in a batch is
    padding. With that, the causal model (24 kHz) can encode padded batches. The other model (48 kHz) looks ahead, and
    cannot.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        config = model.config
        self._model = model.encoder
        self._config = config
        self.sample_rate_hz = int(config.sampling_rate)
        self.num_channels = int(config.audio_channels)
        self.hop = int(np.prod(config.upsampling_ratios))
        self.latent_dim = int(config.hidden_size)
        self.context = self.sample_rate_hz // 2
        self.min_frames = 32 * self.hop  # enough for every layer to mirror the start of the row
        self.max_frames = 0
        self.num_states = 1
        self.normalizes = False
        self.takes_padding = bool(config.use_causal_conv)
        self._forward: Any = self._model

    def num_latent_frames(self, num_frames: int) -> int:
        """See `ModelFamily`."""
        return -(-num_frames // self.hop)

    def keep_states(self, last: int | None, *, hidden: bool) -> None:
        """See `ModelFamily`. Does nothing, because there are no hidden states."""

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `ModelFamily`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """See `ModelFamily`."""
        audio = functional.pad(batch, (0, -batch.shape[2] % self.hop))
        if self._config.normalize:
            scale = (
                audio.mean(1, keepdim=True).square().sum(2, keepdim=True)
                / to_device(lengths, batch.device)[:, None, None]
            )
            audio = audio / (scale.sqrt() + 1e-8)
        hidden = self._forward(audio).transpose(1, 2)
        return hidden, hidden
