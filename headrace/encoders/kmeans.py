"""`kind: kmeans`: units, the number of the nearest centroid to each frame of another encoder.

Importing this module does not import torch; the encoder is in `headrace.encoders.kmeans_units`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.protocol import Encoder
from headrace.errors import ConfigError, NotFoundError

CODE_VERSION = 1


@dataclass(frozen=True, slots=True)
class KmeansSettings:
    """Settings of `kind: kmeans`.

    Attributes:
        encoder: kind and settings of the encoder whose frames are numbered, as in a YAML entry.
        centroids: path of an array (codes, D) in a `.npy` or `.safetensors` file.
        num_codes: number of centroids that a build fits once; instead of the file.
    """

    encoder: dict[str, Any]
    centroids: str | None = None
    num_codes: int | None = None

    @property
    def kind(self) -> str:
        """Kind of the inner encoder."""
        return str(self.encoder["kind"])

    @property
    def own(self) -> dict[str, Any]:
        """Settings of the inner encoder."""
        return {name: value for name, value in self.encoder.items() if name != "kind"}

    @property
    def path(self) -> Path:
        """Path of the centroids."""
        return weights.local_path(str(self.centroids))


def parsed_settings(settings: Mapping[str, object]) -> KmeansSettings:
    """The settings of a YAML entry.

    Raises:
        ConfigError: a setting is unknown or invalid, or the file of centroids does not exist.
    """
    parsed = forms.parse("kmeans", settings, KmeansSettings)
    if "kind" not in parsed.encoder:
        raise ConfigError("encoder kmeans: encoder lacks its kind, for example encoder: {kind: log_mel}")
    if parsed.centroids is None and parsed.num_codes is None:
        raise ConfigError("encoder kmeans: give centroids: FILE, or num_codes, for which a build fits them once")
    if parsed.num_codes is not None and parsed.centroids is not None:
        raise ConfigError("encoder kmeans: centroids and num_codes are both given; the file has the number of codes")
    if parsed.num_codes is not None and parsed.num_codes < 1:
        raise ConfigError(f"encoder kmeans: num_codes must be at least 1, found {parsed.num_codes}")
    if parsed.num_codes is not None:
        return parsed
    if parsed.path.suffix not in {".npy", ".safetensors"} or not parsed.path.is_file():
        raise ConfigError(f"encoder kmeans: centroids: expected a .npy or .safetensors file, found {parsed.centroids}")
    return parsed


def form_of(settings: KmeansSettings) -> str:
    """Digest of what centroids are fitted for: the inner encoder, and the number of codes."""
    from headrace import encoders  # noqa: PLC0415 - which knows this module

    inner = encoders.fingerprint(settings.kind, settings.own)
    return forms.digest("centroids", str(CODE_VERSION), inner, str(settings.num_codes))


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. It depends on the inner encoder and on the content of the file.

    Raises:
        NotFoundError: the centroids are fitted by a build, which gives the file in place of `num_codes`.
    """
    from headrace import encoders  # noqa: PLC0415 - which knows this module

    parsed = parsed_settings(settings)
    inner = encoders.fingerprint(parsed.kind, parsed.own)
    if parsed.centroids is None:
        raise NotFoundError("encoder kmeans: the centroids have not been fitted yet; a build fits them")
    return forms.digest("kmeans", str(CODE_VERSION), inner, weights.file_digest(parsed.path))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace import encoders  # noqa: PLC0415
    from headrace.encoders.kmeans_units import UnitEncoder, read_centroids  # noqa: PLC0415 - needs torch

    parsed, mark = parsed_settings(settings), fingerprint(settings)
    inner = encoders.load(parsed.kind, parsed.own, device)
    return UnitEncoder(inner, read_centroids(parsed.path), mark)
