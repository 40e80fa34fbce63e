"""The encoder of `kind: kmeans`, the file of its centroids, and Lloyd's algorithm to fit them. Imports torch."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.encoders.output import name_of
from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.encoders.protocol import Encoder
from headrace.errors import ConfigError, IntegrityError
from headrace.output_kinds import OutputKind

_FRAMES_AT_ONCE = 1 << 14  # of distances, 64 MiB with 1,024 centroids


class UnitEncoder:
    """An `Encoder` whose codes are the nearest centroids of another encoder's frames."""

    def __init__(self, inner: Encoder, centroids: Tensor, fingerprint: str) -> None:
        frames = next((output for output in outputs_of(inner) if output.kind is OutputKind.FRAMES), None)
        if frames is None or frames.width != centroids.shape[1]:
            width = f"frames of {frames.width} numbers" if frames else "no frames"
            raise ConfigError(
                f"encoder kmeans: the centroids have {centroids.shape[1]} numbers each, and {name_of(inner)} gives "
                f"{width}; fit centroids on this encoder's own latents"
            )
        self._inner, self._frames, self._centroids = inner, frames, centroids.to(inner.device)
        self.device, self.fingerprint, self.info = inner.device, fingerprint, inner.info
        self.sample_rate_hz, self.num_channels, self.hop = inner.sample_rate_hz, inner.num_channels, inner.hop
        self.latent_dim = 1
        dtype = "int16" if len(centroids) < 2**15 else "int32"
        self.outputs = (EncoderOutput("codes", OutputKind.CODES, 1, frames.hop, dtype),)

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return self._inner.num_latent_frames(num_frames)

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> Any:  # noqa: ANN401 - a dict, see `Encoder`
        """See `Encoder`."""
        found: Any = self._inner.encode(batch, lengths)
        hidden, count = found[self._frames.name] if isinstance(found, dict) else found
        return {"codes": (nearest(hidden.flatten(0, 1), self._centroids).view(*hidden.shape[:2], 1), count)}


def nearest(frames: Tensor, centroids: Tensor) -> Tensor:
    """Numbers (N,) of the nearest of the centroids (codes, D) to frames (N, D)."""
    norms = centroids.square().sum(1)
    parts = [norms - 2 * part.float() @ centroids.T for part in torch.split(frames, _FRAMES_AT_ONCE)]
    return torch.cat([distances.argmin(1) for distances in parts])


def read_centroids(path: Path) -> Tensor:
    """Centroids (codes, D), float32, of a `.npy` or `.safetensors` file; reading runs no code from the file.

    Raises:
        IntegrityError: the file cannot be read, or does not hold one array of finite numbers (codes, D).
    """
    try:
        found = _safetensor(path) if path.suffix == ".safetensors" else np.load(path, allow_pickle=False)
        centroids = torch.from_numpy(np.asarray(found).astype(np.float32, casting="same_kind"))
    except (ValueError, OSError, EOFError, TypeError) as error:
        raise IntegrityError(f"{path}: not an array of centroids ({error}); fit them again") from error
    if centroids.ndim != 2 or not len(centroids) or not bool(centroids.isfinite().all()):
        raise IntegrityError(
            f"{path}: expected finite centroids (codes, D), found {tuple(centroids.shape)}; fit them again"
        )
    return centroids


def _safetensor(path: Path) -> "np.ndarray[Any, Any]":
    from safetensors import SafetensorError  # noqa: PLC0415 - comes with transformers
    from safetensors.numpy import load_file  # noqa: PLC0415

    try:
        (only,) = load_file(path).values()
    except SafetensorError as error:
        raise ValueError(error) from error
    return only


def fit_centroids(frames: Tensor, num_codes: int, *, seed: int = 0, rounds: int = 30) -> Tensor:
    """Centroids (num_codes, D) of frames (N, D) by Lloyd's algorithm, from frames chosen by k-means++. Deterministic.

    A centroid that no frame is nearest to becomes the frame that is farthest from its own.

    Raises:
        ConfigError: there are fewer frames than codes.
    """
    if len(frames) < num_codes:
        raise ConfigError(f"{len(frames)} frames are too few for {num_codes} centroids; give latents of more audio")
    frames = frames.float()
    centroids = frames[_spread(frames, num_codes, torch.Generator().manual_seed(seed))]
    for _ in range(rounds):
        codes = nearest(frames, centroids)
        counts = torch.bincount(codes, minlength=num_codes)
        sums = torch.zeros_like(centroids).index_add_(0, codes, frames)
        empty = counts == 0
        far = (frames - centroids[codes]).square().sum(1).topk(int(empty.sum())).indices
        centroids = sums / counts.clamp_min(1)[:, None]
        centroids[empty] = frames[far]
    return centroids


def _spread(frames: Tensor, num_codes: int, generator: torch.Generator) -> list[int]:
    """Numbers of frames, each drawn with the square of its distance to those before as its weight (k-means++)."""
    chosen = [int(torch.randint(len(frames), (1,), generator=generator))]
    distances = torch.full((len(frames),), torch.inf)
    while len(chosen) < num_codes:
        distances = torch.minimum(distances, (frames - frames[chosen[-1]]).square().sum(1))
        weights = distances.double().cumsum(0)
        drawn = torch.rand(1, dtype=torch.float64, generator=generator) * weights[-1]
        chosen.append(min(int(torch.searchsorted(weights, drawn, right=True)), len(frames) - 1))
    return chosen
