"""An encoder of several outputs, as a user would write it: codes, an embedding, and frames of a hop of their own."""

import hashlib

import torch
from torch import Tensor
from torch.nn import functional

NUM_CODES = 512


class Quantizer:
    """Codes of the level and of the peak of each 20 ms, their mean, and levels of each 40 ms.

    Clips of `spoilt` frames get negative codes, which are not stored.
    """

    sample_rate_hz = 16_000
    num_channels = 1

    def __init__(self, device: str, dtype: str = "int16", scale: float = 1.0, window: int = 0, spoilt: int = 0) -> None:
        self.device = device
        self.scale, self.window, self.spoilt = scale, window, spoilt
        self.outputs = {
            "embedding": {"kind": "vector", "dim": 3},
            "codes": {"kind": "codes", "hop": 320, "num_codebooks": 2, "dtype": dtype},
            "levels": {"kind": "frames", "hop": 640, "dim": 1},
        }
        if window:
            from headrace.encoders import EncoderInfo

            self.info = EncoderInfo(640, window, 3 * 640)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(
            f"quantizer 1 {self.outputs} {self.scale} {self.window} {self.spoilt}".encode()
        ).hexdigest()

    def encode(self, batch: Tensor, lengths: Tensor) -> dict[str, object]:
        fine, coarse = _steps(batch, 320), _steps(batch, 640)
        codes = torch.stack([fine.abs().mean(2), fine.abs().amax(2)], 2) * NUM_CODES * self.scale
        codes[lengths == self.spoilt] = -1
        mask = (torch.arange(batch.shape[2]) < lengths[:, None]).float()
        mean = (batch[:, 0].abs() * mask).sum(1) / lengths
        return {
            "embedding": torch.stack([mean, mean * 2, mean * 0 + 1], 1),
            "codes": (codes.round().long(), -(-lengths // 320)),
            "levels": (coarse.abs().mean(2, keepdim=True), -(-lengths // 640)),
        }


def _steps(batch: Tensor, hop: int) -> Tensor:
    return functional.pad(batch[:, 0], (0, -batch.shape[2] % hop)).unflatten(1, (-1, hop))


class Paces(Quantizer):
    """Codes of each 20 ms first; then finer codes of each 10 ms, levels of each 40 ms, and a vector."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        codes = self.outputs["codes"]
        self.outputs |= {"fine": {**codes, "hop": 160}}

    def encode(self, batch: Tensor, lengths: Tensor) -> dict[str, object]:
        fine = (_steps(batch, 160).abs().mean(2, keepdim=True) * NUM_CODES).round().long()
        return super().encode(batch, lengths) | {"fine": (fine.expand(-1, -1, 2), -(-lengths // 160))}


class Vector(Quantizer):
    """The vector alone."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.outputs = {"embedding": self.outputs["embedding"]}

    def encode(self, batch: Tensor, lengths: Tensor) -> dict[str, object]:
        return {"embedding": super().encode(batch, lengths)["embedding"]}
