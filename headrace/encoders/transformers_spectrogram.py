"""The Whisper and AST families of `kind: transformers`: models whose input is a spectrogram of fixed length.

The spectrogram is computed here, on the device. The models' own feature extractors compute it with numpy, one recording
at a time, which is too slow for a GPU.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device, valid_mask


class Whisper:
    """Whisper's encoder. Its input is 30 s of log-mel, padded with zeros; the valid ones of 1500 steps are kept."""

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
        self._hidden = True

    def num_latent_frames(self, num_frames: int) -> int:
        """See `ModelFamily`."""
        return -(-num_frames // self.hop)

    def keep_states(self, last: int | None, *, hidden: bool) -> None:
        """See `ModelFamily`."""
        self._hidden = hidden
        if last is not None:
            self._model.layers = self._model.layers[: last + 1]

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `ModelFamily`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)
        self._filters, self._window = self._filters.to(device), self._window.to(device)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """See `ModelFamily`."""
        audio = functional.pad(batch[:, 0], (0, self.max_frames - batch.shape[2]))
        out = self._forward(self.log_mel(audio), output_hidden_states=self._hidden)
        return *(out.hidden_states if self._hidden else ()), out.last_hidden_state

    def log_mel(self, audio: Tensor) -> Tensor:
        """Log-mel (B, mels, 3000) of audio (B, 480000), as WhisperFeatureExtractor computes it."""
        with torch.autocast(audio.device.type, enabled=False):
            spectrum = torch.stft(audio, self._n_fft, self._mel_hop, window=self._window, return_complex=True)
            energies = self._filters @ spectrum[..., :-1].abs().square()
            logarithm = energies.clamp_min(1e-10).log10()
            loudest = logarithm.amax(dim=(1, 2), keepdim=True)
            return (torch.maximum(logarithm, loudest - 8.0) + 4.0) / 4.0


class SpectrogramTransformer:
    """AST. Its input is patches of a spectrogram of 10.24 s; patches of the same time are averaged: 0.1 s per step."""

    _FRAME, _FRAME_HOP, _FFT = 400, 160, 512  # Kaldi's 25 ms and 10 ms at 16 kHz

    def __init__(self, model: Any, extractor: Any) -> None:  # noqa: ANN401
        from transformers.audio_utils import mel_filter_bank  # noqa: PLC0415 - optional

        config = model.config
        self._model, self._config = model, config
        self._mean = float(extractor.mean) if extractor.do_normalize else 0.0
        self._scale = 2 * float(extractor.std) if extractor.do_normalize else 1.0
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
        self._hidden = True

    def _num_mel_frames(self, num_frames: int) -> int:
        return (num_frames - self._FRAME) // self._FRAME_HOP + 1

    def num_latent_frames(self, num_frames: int) -> int:
        """See `ModelFamily`."""
        steps = (self._num_mel_frames(num_frames) - int(self._config.patch_size)) // int(self._config.time_stride) + 1
        return min(steps, int(self._num_steps))

    def keep_states(self, last: int | None, *, hidden: bool) -> None:
        """See `ModelFamily`."""
        self._hidden = hidden
        if last is not None:
            layers = self._model.layers if hasattr(self._model, "layers") else self._model.encoder.layer
            del layers[last + 1 :]

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """See `ModelFamily`."""
        self._model = running.frozen(self._model, device)
        self._forward = running.compiled(self._model, wanted=wants_compiled)
        self._filters, self._window = self._filters.to(device), self._window.to(device)

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """See `ModelFamily`."""
        out = self._forward(self.log_mel(batch[:, 0], lengths), output_hidden_states=self._hidden)
        return tuple(
            self._steps(state) for state in (*(out.hidden_states if self._hidden else ()), out.last_hidden_state)
        )

    def _steps(self, state: Tensor) -> Tensor:
        """Mean over the bands, (B, steps, D), of a state (B, 2 + bands * steps, D)."""
        patches = state[:, 2:].reshape(len(state), self._num_bands, self._num_steps, self.latent_dim)
        return patches.mean(1)

    def log_mel(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """Log-mel (B, max_length, mels) of audio (B, N), as ASTFeatureExtractor computes it, zero-padded."""
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
            normalised: Tensor = (features - self._mean) / self._scale
            return normalised
