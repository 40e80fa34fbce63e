"""How each family of Hugging Face audio models is fed with audio and read as one vector per step.

One small class per family, each with the trap that its authors left: lengths that are not N / hop, inputs always 30 s
long, channels before time, patches instead of steps, statistics that padding would spoil. Imports torch; transformers is
at work already when it is imported.
"""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device, valid_mask
from headrace.errors import ConfigError


class Family(Protocol):
    """One model of a family.

    Attributes:
        sample_rate_hz, num_channels, hop, latent_dim: see `Encoder`.
        context: PCM frames that are trimmed at a cut edge.
        min_frames: shorter input is padded with zeros to this.
        max_frames: longest input; 0 for any.
        num_states: hidden states that the model gives, the embeddings among them.
        normalizes: see `EncoderInfo`.
        takes_padding: whether rows of different lengths may share a batch.
    """

    sample_rate_hz: int
    num_channels: int
    hop: int
    latent_dim: int
    context: int
    min_frames: int
    max_frames: int
    num_states: int
    normalizes: bool
    takes_padding: bool

    def num_latent_frames(self, num_frames: int) -> int:
        """T; below 1 for input shorter than the model can take, which is padded and counts as 1."""

    def keep_states(self, last: int | None) -> None:
        """Layers beyond hidden state `last` are not needed (None: all are)."""

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """Move to the device, frozen."""

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """All hidden states and then the output, each (B, T, D); rows may be longer than their T."""


def family_of(model: Any, extractor: Any) -> Family:  # noqa: ANN401 - transformers' classes are not typed
    """The family that a model belongs to.

    Raises:
        ConfigError: none that is known.
    """
    config = model.config
    if config.model_type == "whisper":
        return Whisper(model, extractor)
    if config.model_type == "encodec":
        return Encodec(model)
    if config.model_type == "audio-spectrogram-transformer":
        return SpectrogramTransformer(model, extractor)
    if hasattr(config, "conv_kernel") and hasattr(config, "conv_stride") and hasattr(model, "feature_extractor"):
        return Waveform(model, extractor)
    raise ConfigError(
        f"encoder transformers: models of type {config.model_type!r} are not known here (wav2vec2, HuBERT, WavLM and their "
        'like, Whisper, EnCodec, AST are); write a few lines of your own and use kind: custom with encoder "module:Class"'
    )


class Waveform:
    """wav2vec2, HuBERT, WavLM, MERT and their like: convolutions without padding, then a transformer.

    T is not N / hop: 5 s at 16 kHz give 249 steps, not 250, since the last convolution needs its whole kernel. Those
    with group norm take statistics over time, which padding would spoil: they are taken over the valid part here.
    """

    _PADDABLE = ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat")

    def __init__(self, model: Any, extractor: Any) -> None:  # noqa: ANN401
        config = model.config
        self._model = model
        model.adapter = None  # the states before it are what all layers share
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

    def _receptive_field(self) -> int:
        field = 1
        for kernel, stride in zip(reversed(self._kernels), reversed(self._strides), strict=True):
            field = (field - 1) * stride + kernel
        return field

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Family`."""
        for kernel, stride in zip(self._kernels, self._strides, strict=True):
            num_frames = (num_frames - kernel) // stride + 1
        return num_frames

    def keep_states(self, last: int | None) -> None:
        """See `Family`. One layer more than needed stays: the last state is normalised by some models."""
        if last is not None:
            self._model.encoder.layers = self._model.encoder.layers[: last + 1]

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `Family`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """See `Family`."""
        mask = None
        if self.takes_padding:
            mask = to_device(valid_mask(lengths, batch.shape[2]), batch.device)
            if self._norm is not None:
                kernel, stride = self._kernels[0], self._strides[0]
                self._norm.lengths = to_device((lengths - kernel) // stride + 1, batch.device)
        out = self._forward(batch[:, 0], attention_mask=mask, output_hidden_states=True)
        return *out.hidden_states, out.last_hidden_state


class MaskedGroupNorm(nn.Module):
    """A group norm with one group per channel, its statistics over the valid part of each row.

    Attributes:
        lengths: int64 (B,), valid positions of each row; set before each batch.
    """

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.norm = norm
        self.lengths = torch.zeros(0, dtype=torch.int64)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, C, N) to the same."""
        mask = (torch.arange(hidden.shape[2], device=hidden.device) < self.lengths[:, None])[:, None]
        count = self.lengths[:, None, None]
        exact = hidden.float()
        mean = (exact * mask).sum(2, keepdim=True) / count
        centred = exact - mean
        variance = (centred.square() * mask).sum(2, keepdim=True) / count
        normalised = centred * torch.rsqrt(variance + self.norm.eps)
        return (normalised * self.norm.weight[:, None] + self.norm.bias[:, None]).to(hidden.dtype)


def _masked_norm(model: Any) -> MaskedGroupNorm | None:  # noqa: ANN401
    """Put a masked norm in the place of the first convolution's group norm; None where it has none."""
    first = model.feature_extractor.conv_layers[0]
    norm = getattr(first, "layer_norm", None)
    if not isinstance(norm, nn.GroupNorm):
        return None
    first.layer_norm = MaskedGroupNorm(norm)
    masked: MaskedGroupNorm = first.layer_norm
    return masked


class Whisper:
    """Whisper's encoder: always 30 s of log-mel, so shorter input is padded, and 1500 steps are trimmed to the valid ones."""

    def __init__(self, model: Any, extractor: Any) -> None:  # noqa: ANN401
        config = model.config
        self._model = model.get_encoder() if hasattr(model, "get_encoder") else model.encoder
        self._n_fft, self._mel_hop = int(extractor.n_fft), int(extractor.hop_length)
        self._filters = torch.from_numpy(np.asarray(extractor.mel_filters)).float().T.contiguous()
        self._window = torch.hann_window(self._n_fft)
        self.sample_rate_hz = int(extractor.sampling_rate)
        self.num_channels = 1
        self.hop = 2 * self._mel_hop
        self.latent_dim = int(config.d_model)
        self.context = self.sample_rate_hz // 2
        self.min_frames = 1
        self.max_frames = self.hop * int(config.max_source_positions)
        self.num_states = int(config.encoder_layers) + 1
        self.normalizes = False
        self.takes_padding = True
        self._forward: Any = self._model

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Family`."""
        return -(-num_frames // self.hop)

    def keep_states(self, last: int | None) -> None:
        """See `Family`."""
        if last is not None:
            self._model.layers = self._model.layers[: last + 1]

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `Family`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)
        self._filters, self._window = self._filters.to(device), self._window.to(device)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """See `Family`."""
        audio = functional.pad(batch[:, 0], (0, self.max_frames - batch.shape[2]))
        out = self._forward(self.log_mel(audio), output_hidden_states=True)
        return *out.hidden_states, out.last_hidden_state

    def log_mel(self, audio: Tensor) -> Tensor:
        """(B, 480000) to (B, mels, 3000), as WhisperFeatureExtractor computes it."""
        with torch.autocast(audio.device.type, enabled=False):
            spectrum = torch.stft(audio, self._n_fft, self._mel_hop, window=self._window, return_complex=True)
            energies = self._filters @ spectrum[..., :-1].abs().square()
            logarithm = energies.clamp_min(1e-10).log10()
            loudest = logarithm.amax(dim=(1, 2), keepdim=True)
            return (torch.maximum(logarithm, loudest - 8.0) + 4.0) / 4.0


class Encodec:
    """EnCodec's encoder before quantisation: channels come before time and are swapped; there are no hidden states.

    Input is filled with zeros to whole hops, because the model itself mirrors the end of a row, which in a batch would be
    the padding. The causal model (24 kHz) takes padded batches then; the other one (48 kHz) looks ahead and does not.
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
        self.min_frames = 32 * self.hop  # the mirrored start of every layer then lies within the row
        self.max_frames = 0
        self.num_states = 1
        self.normalizes = False
        self.takes_padding = bool(config.use_causal_conv)
        self._forward: Any = self._model

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Family`."""
        return -(-num_frames // self.hop)

    def keep_states(self, last: int | None) -> None:
        """See `Family`. There is only the output."""

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `Family`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """See `Family`."""
        audio = functional.pad(batch, (0, -batch.shape[2] % self.hop))
        if self._config.normalize:
            scale = (
                audio.mean(1, keepdim=True).square().sum(2, keepdim=True)
                / to_device(lengths, batch.device)[:, None, None]
            )
            audio = audio / (scale.sqrt() + 1e-8)
        hidden = self._forward(audio).transpose(1, 2)
        return hidden, hidden


class SpectrogramTransformer:
    """AST: patches of a spectrogram, always 10.24 s. Patches over one stretch of time are averaged to one step of 0.1 s."""

    _FRAME, _FRAME_HOP, _FFT = 400, 160, 512  # Kaldi's 25 ms and 10 ms at 16 kHz

    def __init__(self, model: Any, extractor: Any) -> None:  # noqa: ANN401
        from transformers.audio_utils import mel_filter_bank

        config = model.config
        self._model, self._config = model, config
        self._mean, self._scale = (extractor.mean, 2 * extractor.std) if extractor.do_normalize else (0.0, 1.0)
        rate_hz = int(extractor.sampling_rate)
        filters = mel_filter_bank(
            num_frequency_bins=self._FFT // 2 + 1,
            num_mel_filters=config.num_mel_bins,
            min_frequency=20,
            max_frequency=rate_hz // 2,
            sampling_rate=rate_hz,
            norm=None,
            mel_scale="kaldi",
            triangularize_in_mel_space=True,
        )
        self._filters = torch.from_numpy(filters).float()
        self._window = torch.hann_window(self._FRAME, periodic=False)
        self._num_bands = (config.num_mel_bins - config.patch_size) // config.frequency_stride + 1
        self._num_steps = (config.max_length - config.patch_size) // config.time_stride + 1
        self.sample_rate_hz = rate_hz
        self.num_channels = 1
        self.hop = self._FRAME_HOP * int(config.time_stride)
        self.latent_dim = int(config.hidden_size)
        self.context = self.sample_rate_hz // 2
        self.min_frames = self._FRAME
        self.max_frames = (self._FRAME + (config.max_length - 1) * self._FRAME_HOP) // self.hop * self.hop
        self.num_states = int(config.num_hidden_layers) + 1
        self.normalizes = False
        self.takes_padding = True
        self._forward: Any = model

    def _num_mel_frames(self, num_frames: int) -> int:
        return (num_frames - self._FRAME) // self._FRAME_HOP + 1

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Family`."""
        steps = (self._num_mel_frames(num_frames) - int(self._config.patch_size)) // int(self._config.time_stride) + 1
        return min(steps, self._num_steps)

    def keep_states(self, last: int | None) -> None:
        """See `Family`."""
        if last is not None:
            layers = self._model.layers if hasattr(self._model, "layers") else self._model.encoder.layer
            del layers[last + 1 :]

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `Family`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)
        self._filters, self._window = self._filters.to(device), self._window.to(device)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """See `Family`."""
        out = self._forward(self.log_mel(batch[:, 0], lengths), output_hidden_states=True)
        return tuple(self._steps(state) for state in (*out.hidden_states, out.last_hidden_state))

    def _steps(self, state: Tensor) -> Tensor:
        """(B, 2 + bands * steps, D) to (B, steps, D)."""
        return state[:, 2:].unflatten(1, (self._num_bands, self._num_steps)).mean(1)

    def log_mel(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """(B, N) to (B, max_length, mels), as ASTFeatureExtractor computes it; zeros behind each row, then normalised."""
        with torch.autocast(audio.device.type, enabled=False):
            frames = audio.unfold(1, self._FRAME, self._FRAME_HOP)
            frames = frames - frames.mean(2, keepdim=True)
            first = frames[..., :1] * (1 - 0.97)
            frames = torch.cat([first, frames[..., 1:] - 0.97 * frames[..., :-1]], dim=2) * self._window
            energies = torch.fft.rfft(frames, self._FFT).abs().square() @ self._filters
            features = energies.clamp_min(1.192092955078125e-07).log()
            valid = valid_mask((lengths - self._FRAME) // self._FRAME_HOP + 1, features.shape[1])
            features = features.masked_fill(~to_device(valid, audio.device)[:, :, None], 0.0)
            features = functional.pad(features, (0, 0, 0, self._config.max_length - features.shape[1]))
            return (features - self._mean) / self._scale
