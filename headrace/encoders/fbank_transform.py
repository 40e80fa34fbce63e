"""The transform of `kind: fbank`, step by step that of Kaldi's `compute-fbank-feats --dither=0`.

Of each frame: its mean is taken off, then 0.97 of the sample before each sample, then a Povey window is applied; the
power spectrum goes through triangles on the mel scale 1127 ln(1 + f / 700), and the natural logarithm is taken.
"""

import torch
from torch import Tensor
from torch.nn import functional

from headrace.encoders.fbank_settings import FbankSettings
from headrace.encoders.framing import power_spectrum, to_device, zero_padding
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import WindowSeconds

_WINDOW_SECONDS = 60.0
_PRE_EMPHASIS = 0.97
_FLOOR = 1.1920928955078125e-07  # the spacing of float32 at 1


class FbankEncoder:
    """The encoder of `kind: fbank`."""

    num_channels = 1

    def __init__(self, settings: FbankSettings, fingerprint: str, device: str) -> None:
        self._settings, self.fingerprint, self.device = settings, fingerprint, device
        self.sample_rate_hz, self.hop, self.latent_dim = settings.sample_rate_hz, settings.hop, settings.num_mels
        self._size = settings.frame_size
        cut = WindowSeconds(_WINDOW_SECONDS, 0.0).default_frames(self.sample_rate_hz, self.hop, self._size)
        self.info = EncoderInfo(self._size, *cut, is_concurrent=True)
        hann = torch.hann_window(self._size, periodic=False, dtype=torch.float64)
        self._window = hann.pow(0.85).float().to(device)
        self._fft = 1 << (self._size - 1).bit_length()
        self._filters = mel_filters(settings, self._fft).to(device)
        self._scale = 32768.0 if settings.scale == "int16" else 1.0

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`. A recording that is shorter than a frame has one."""
        if self._settings.snip_edges:
            return max(1, 1 + (num_frames - self._size) // self.hop)
        return max(1, (num_frames + self.hop // 2) // self.hop)

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`."""
        count = torch.tensor([self.num_latent_frames(int(length)) for length in lengths])
        audio = batch[:, 0] if self._settings.snip_edges else self._mirrored(batch[:, 0], lengths, int(count.max()))
        audio = functional.pad(audio, (0, max(0, self._size - audio.shape[1]))) * self._scale
        frames = audio.unfold(1, self._size, self.hop)[:, : int(count.max())]
        frames = frames - frames.mean(2, keepdim=True)
        before = torch.cat([frames[..., :1], frames[..., :-1]], 2)
        spectrum = power_spectrum((frames - _PRE_EMPHASIS * before) * self._window, self._fft)
        return zero_padding((spectrum[..., :-1] @ self._filters).clamp_min(_FLOOR).log(), count), count

    def _mirrored(self, audio: Tensor, lengths: Tensor, num_frames: int) -> Tensor:
        """Rows whose frames are centred on those of the audio, mirrored at both ends of each row."""
        first = self.hop // 2 - self._size // 2
        places = torch.arange(first, first + (num_frames - 1) * self.hop + self._size, device=audio.device)
        size = to_device(lengths, audio.device)[:, None]
        places = places.remainder(2 * size)  # mirrored as often as a short row needs it
        return audio.gather(1, torch.minimum(places, 2 * size - 1 - places))


def mel_filters(settings: FbankSettings, fft_size: int) -> Tensor:
    """Triangles (fft_size // 2, num_mels) in mel space; the bin at half the sample rate has no weight."""
    band = torch.tensor([settings.min_hz, settings.band_stop_hz], dtype=torch.float64)
    low, high = _mel(band)
    edges = low + (high - low) * torch.arange(settings.num_mels + 2, dtype=torch.float64) / (settings.num_mels + 1)
    bins = _mel(torch.arange(fft_size // 2, dtype=torch.float64) * settings.sample_rate_hz / fft_size)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp_min(0).float()


def _mel(hz: Tensor) -> Tensor:
    return 1127.0 * torch.log1p(hz / 700.0)
