"""The transform of `kind: log_mel`: windowed FFT, mel filters, logarithm."""

import torch
from torch import Tensor

from headrace.encoders.framing import centred_frames, power_spectrum, zero_padding
from headrace.encoders.log_mel_settings import LogMelSettings
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import WindowSeconds

_WINDOW_SECONDS = 60.0


class LogMelEncoder:
    """The encoder of `kind: log_mel`. Frames are centred on multiples of the hop: T = 1 + N // hop."""

    num_channels = 1

    def __init__(self, settings: LogMelSettings, fingerprint: str, device: str) -> None:
        self._settings = settings
        self.fingerprint = fingerprint
        self.device = device
        self.sample_rate_hz = settings.sample_rate_hz
        self.hop = max(1, round(settings.hop_seconds * settings.sample_rate_hz))
        self.latent_dim = settings.num_mels
        context = settings.window_size
        cut = WindowSeconds(_WINDOW_SECONDS, 0.0).default_frames(self.sample_rate_hz, self.hop, context)
        self.info = EncoderInfo(context, *cut, is_concurrent=True)
        self._window = torch.hann_window(settings.window_size, device=device)
        self._filters = mel_filters(settings).to(device)

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return 1 + num_frames // self.hop

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`."""
        frames = centred_frames(batch, self._settings.window_size, self.hop)
        energies = power_spectrum(frames * self._window, self._settings.window_size)
        latents = torch.log(energies @ self._filters + self._settings.floor)
        num_latent = 1 + lengths // self.hop
        return zero_padding(latents, num_latent), num_latent


def mel_filters(settings: LogMelSettings) -> Tensor:
    """Triangular filters (window_size // 2 + 1, num_mels) on the HTK mel scale, m = 2595 log10(1 + f / 700)."""
    nyquist_hz, band = settings.sample_rate_hz / 2, (settings.min_hz, settings.band_stop_hz)
    low, high = (2595.0 * torch.log10(torch.tensor(1 + hz / 700, dtype=torch.float64)) for hz in band)
    mels = low + (high - low) * torch.arange(settings.num_mels + 2, dtype=torch.float64) / (settings.num_mels + 1)
    edges = 700 * (10 ** (mels / 2595) - 1)
    bins = torch.linspace(0, nyquist_hz, settings.window_size // 2 + 1, dtype=torch.float64)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp_min(0).float()
