"""`output: vector` of `kind: transformers`: one vector of the whole input, of CLAP or of a model with a pooled output.

Of a recording that is longer than the model's input, the pipeline takes the mean of the vectors of its windows. Imports
torch, but not transformers.
"""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device
from headrace.encoders.outputs import EncoderOutput
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import WindowSeconds
from headrace.encoders.transformers_codec import unfit
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.encoders.transformers_spectrogram import SpectrogramTransformer
from headrace.errors import ConfigError
from headrace.output_kinds import OutputKind


class Pooled(Protocol):
    """A model that gives one vector.

    Attributes:
        sample_rate_hz: see `Encoder`.
        dim: size of the vector.
        min_frames, max_frames: shortest and longest input in PCM frames.
    """

    sample_rate_hz: int
    dim: int
    min_frames: int
    max_frames: int

    def pooled(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """Vectors (B, dim) of rows (B, N), zeros behind each row's length."""


class VectorEncoder:
    """An `Encoder` with the output `embedding`."""

    num_channels, hop = 1, 1

    def __init__(self, pooled: Pooled, settings: TransformersSettings, fingerprint: str, device: str) -> None:
        self._pooled, self._settings = pooled, settings
        self.device, self.fingerprint = device, fingerprint
        self.sample_rate_hz, self.latent_dim = self._pooled.sample_rate_hz, self._pooled.dim
        self.outputs = (EncoderOutput("embedding", OutputKind.VECTOR, self.latent_dim),)
        self.info = self._info()

    def _info(self) -> EncoderInfo:
        longest = self._pooled.max_frames / self.sample_rate_hz
        cut = WindowSeconds(self._settings.window_seconds or longest, self._settings.overlap_seconds)
        window, overlap = cut.frames(self.sample_rate_hz, 1, 0)
        if window > self._pooled.max_frames:
            raise ConfigError(
                f"encoder transformers: window_seconds is {cut.window_seconds:g}, this model takes at most "
                f"{longest:g} s"
            )
        tolerance = running.batch_tolerance(self._settings.autocast)
        padded_to = self._pooled.max_frames
        return EncoderInfo(0, window, overlap, is_concurrent=True, padded_to=padded_to, batch_tolerance=tolerance)

    def num_latent_frames(self, num_frames: int) -> int:  # noqa: ARG002
        """See `Encoder`."""
        return 1

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> Any:  # noqa: ANN401 - a dict, see `Encoder`
        """See `Encoder`."""
        audio = functional.pad(batch[:, 0], (0, max(0, self._pooled.min_frames - batch.shape[2])))
        with running.precision(self.device, self._settings.autocast):
            return {"embedding": self._pooled.pooled(audio, lengths.clamp_min(self._pooled.min_frames)).float()}


def pooled_of(model: Any, extractor: Any, device: str) -> Pooled:  # noqa: ANN401
    """Wrap a model, on a device. Raises `ConfigError` if it gives no vector."""
    if hasattr(model, "get_audio_features") and hasattr(extractor, "nb_max_samples"):
        return Clap(model, extractor, device)
    if model.config.model_type == "audio-spectrogram-transformer":
        return PooledSpectrogram(model, extractor, device)
    raise unfit(model, "vector")


class PooledSpectrogram(SpectrogramTransformer):
    """AST's pooled output: the mean of its two special tokens."""

    def __init__(self, model: Any, extractor: Any, device: str) -> None:  # noqa: ANN401
        super().__init__(model, extractor)
        self.dim = self.latent_dim
        self.to(device, wants_compiled=False)

    def pooled(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """See `Pooled`."""
        found: Tensor = self._forward(self.log_mel(audio, lengths)).pooler_output
        return found


class Clap:
    """CLAP's embedding of audio: of 10 s of a log-mel spectrogram, computed here as ClapFeatureExtractor does.

    Shorter rows are repeated as the extractor says. Longer ones never come: windows take the place of the extractor's
    random crops, so that the result is the same each time.
    """

    def __init__(self, model: Any, extractor: Any, device: str) -> None:  # noqa: ANN401
        model.text_model = None
        self._model = running.frozen(model, device)
        self._fuses, self._padding = extractor.truncation == "fusion", extractor.padding
        self._size, self._hop = int(extractor.fft_window_size), int(extractor.hop_length)
        filters = extractor.mel_filters if self._fuses else extractor.mel_filters_slaney
        self._filters = torch.from_numpy(np.asarray(filters)).float().T.contiguous().to(device)
        self._window = torch.hann_window(self._size, device=device)
        self.sample_rate_hz = int(extractor.sampling_rate)
        self.min_frames, self.max_frames = 1, int(extractor.nb_max_samples)
        self.dim = int(model.config.projection_dim)

    def pooled(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """See `Pooled`."""
        features = self.log_mel(self._repeated(audio, lengths))[:, None]
        features = features.expand(-1, 4 if self._fuses else 1, -1, -1)
        is_longer = torch.zeros(len(audio), 1, dtype=torch.bool, device=audio.device)
        found = self._model.get_audio_features(input_features=features, is_longer=is_longer)
        vector: Tensor = getattr(found, "pooler_output", found)  # a tensor before transformers 5
        return vector

    def _repeated(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """Rows (B, max_frames), each repeated whole (`repeatpad`), repeated and cut (`repeat`), or padded (`pad`)."""
        counts = {"repeatpad": self.max_frames // lengths, "repeat": -(-self.max_frames // lengths)}
        filled = lengths * counts.get(self._padding, torch.ones_like(lengths))
        places = torch.arange(self.max_frames, device=audio.device)
        lengths, filled = to_device(torch.stack([lengths, filled]), audio.device)[..., None]
        repeated: Tensor = audio.gather(1, places % lengths) * (places < filled)
        return repeated

    def log_mel(self, audio: Tensor) -> Tensor:
        """Decibels (B, T, mels) of audio (B, max_frames)."""
        with torch.autocast(audio.device.type, enabled=False):
            spectrum = torch.stft(audio, self._size, self._hop, window=self._window, return_complex=True)
            energies = self._filters @ spectrum.abs().square()
            return 10 * energies.clamp_min(1e-10).log10().transpose(1, 2)
