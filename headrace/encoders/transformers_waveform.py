"""The wav2vec2 family of `kind: transformers`: models whose first layers are convolutions over the waveform.

Imports torch, but not transformers.
"""

import threading
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headrace.encoders import running
from headrace.encoders.framing import to_device, valid_mask


class Waveform:
    """wav2vec2, HuBERT, WavLM, MERT and similar models: convolutions without padding, then a transformer.

    T is not N / hop: 5 s at 16 kHz give 249 steps, not 250, because the last convolution needs its whole kernel. Models
    with group norm compute statistics over time, which padding would change; `MaskedGroupNorm` leaves the padding out.
    """

    _PADDABLE = ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat")

    def __init__(self, model: Any, extractor: Any) -> None:  # noqa: ANN401
        config = model.config
        self._model = model
        model.adapter = None  # hidden states and output are those before the adapter
        self._kernels, self._strides = tuple(config.conv_kernel), tuple(config.conv_stride)
        self.sample_rate_hz = int(extractor.sampling_rate)
        self.num_channels = 1
        self.hop = int(np.prod(self._strides))
        self.latent_dim = int(config.hidden_size)
        self.min_frames = self._receptive_field()
        self.context = max(self.min_frames, self.sample_rate_hz // 2)
        self.max_frames = 0
        self.num_states = int(config.num_hidden_layers) + 1
        self.normalizes = bool(extractor.do_normalize)
        self.takes_padding = config.model_type in self._PADDABLE and not getattr(config, "conv_pos_batch_norm", False)
        self._norm = _masked_norm(model) if self.takes_padding else None
        self._forward: Any = model
        self._hidden = True

    def _receptive_field(self) -> int:
        field = 1
        for kernel, stride in zip(reversed(self._kernels), reversed(self._strides), strict=True):
            field = (field - 1) * stride + kernel
        return field

    def num_latent_frames(self, num_frames: int) -> int:
        """See `ModelFamily`."""
        for kernel, stride in zip(self._kernels, self._strides, strict=True):
            num_frames = (num_frames - kernel) // stride + 1
        return num_frames

    def keep_states(self, last: int | None, *, hidden: bool) -> None:
        """See `ModelFamily`. One layer more than needed is kept, because some models normalise the last state."""
        self._hidden = hidden
        if last is not None:
            self._model.encoder.layers = self._model.encoder.layers[: last + 1]

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `ModelFamily`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """See `ModelFamily`."""
        mask = None
        if self.takes_padding:
            mask = to_device(valid_mask(lengths, batch.shape[2]), batch.device)
            if self._norm is not None:
                kernel, stride = self._kernels[0], self._strides[0]
                self._norm.expect(to_device((lengths - kernel) // stride + 1, batch.device))
        out = self._forward(batch[:, 0], attention_mask=mask, output_hidden_states=self._hidden)
        return *(out.hidden_states if self._hidden else ()), out.last_hidden_state


class MaskedGroupNorm(nn.Module):
    """A group norm with one group per channel that leaves padding out of its statistics.

    The model cannot pass lengths to it. So each thread sets the lengths of its batch with `expect` before it runs the
    model.
    """

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.norm = norm
        self._batch = threading.local()

    def expect(self, lengths: Tensor) -> None:
        """Set the valid positions of each row in this thread's next batch: int64 (B,), on the device."""
        self._batch.lengths = lengths

    def forward(self, hidden: Tensor) -> Tensor:
        """The normalised input, (B, C, N) like the input."""
        lengths: Tensor = self._batch.lengths[:, None]
        mask = (torch.arange(hidden.shape[2], device=hidden.device) < lengths)[:, None]
        count = lengths[:, None]
        exact = hidden.float()
        mean = (exact * mask).sum(2, keepdim=True) / count
        centred = exact - mean
        variance = (centred.square() * mask).sum(2, keepdim=True) / count
        normalised = centred * torch.rsqrt(variance + self.norm.eps)
        return (normalised * self.norm.weight[:, None] + self.norm.bias[:, None]).to(hidden.dtype)


def _masked_norm(model: Any) -> MaskedGroupNorm | None:  # noqa: ANN401
    """Replace the first convolution's group norm by a masked one. Returns it; None if the model has no group norm."""
    first = model.feature_extractor.conv_layers[0]
    norm = getattr(first, "layer_norm", None)
    if not isinstance(norm, nn.GroupNorm):
        return None
    first.layer_norm = MaskedGroupNorm(norm)
    masked: MaskedGroupNorm = first.layer_norm
    return masked
