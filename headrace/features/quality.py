"""`kind: quality`: DNSMOS, mean opinion scores of speech as ITU-T P.835 has them, estimated by a model.

The model runs from the file in its package, which is not imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.onnx_session import open_session
from headrace.errors import ConfigError
from headrace.features.protocol import Audio

CODE_VERSION = 1
SAMPLE_RATE_HZ, SEGMENT_FRAMES = 16_000, 144_160
_SEGMENTS_AT_ONCE = 4
_CURVES = {  # from the model's three outputs to scores, the highest power first: https://github.com/microsoft/DNS-Challenge
    "mos_sig": (-0.08397278, 1.22083953, 0.0052439),
    "mos_bak": (-0.13166888, 1.60915514, -0.39604546),
    "mos_ovr": (-0.06766283, 1.11546468, 0.04602535),
}


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """Settings of `kind: quality`.

    Attributes:
        file: path of the model, or `package:path`, a file of an installed package, which is not imported. It takes
            audio as (segments, 144160) at 16 kHz and gives three numbers for each: signal, background, overall.
        hop_seconds: from the beginning of one segment of 9.01 s to that of the next. Scores are means over segments.
    """

    file: str = field(default="speechmos:dnsmos_models/sig_bak_ovr.onnx", metadata={"results": False})
    hop_seconds: Annotated[float, Field(ge=0.01)] = 1.0


class QualityFeature:
    """Scores from 1 to 5 of a sample; a `Feature`."""

    columns: ClassVar[Mapping[str, str]] = dict.fromkeys(_CURVES, "float")
    sample_rate_hz, num_channels, is_concurrent = SAMPLE_RATE_HZ, 1, True

    def __init__(self, settings: QualitySettings, path: Path) -> None:
        self._hop = round(settings.hop_seconds * SAMPLE_RATE_HZ)
        self._session = open_session(path, "feature quality")
        (self._input, *others), outputs = self._session.get_inputs(), self._session.get_outputs()
        if others or len(self._input.shape) != 2 or outputs[0].shape[1:] != [len(_CURVES)]:
            raise ConfigError(
                f"feature quality: file: {path.name} takes an input of {self._input.shape} and gives "
                f"{outputs[0].shape}; expected (N, {SEGMENT_FRAMES}) and (N, 3), as DNSMOS's sig_bak_ovr.onnx has"
            )

    def measure(self, audio: Audio, sample_rate_hz: int) -> Mapping[str, Any]:  # noqa: ARG002 - always 16 kHz
        """See `Feature`. Nulls for a sample without a frame."""
        if not audio.shape[1]:
            return dict.fromkeys(_CURVES)
        segments = segments_of(audio[0], self._hop)
        parts = [segments[first : first + _SEGMENTS_AT_ONCE] for first in range(0, len(segments), _SEGMENTS_AT_ONCE)]
        raw = np.concatenate([self._session.run(None, {self._input.name: np.ascontiguousarray(p)})[0] for p in parts])
        scores = zip(_CURVES.items(), raw.astype(np.float64).T, strict=True)
        return {name: float(np.polyval(curve, column).mean()) for (name, curve), column in scores}


def segments_of(mono: "np.ndarray[Any, np.dtype[np.float32]]", hop: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """The segments (N, 144160) of a recording. A shorter recording is doubled until it is long enough.

    As in DNSMOS, segments begin where 9.01 s are left of the whole seconds of the recording.
    """
    while len(mono) < SEGMENT_FRAMES:
        mono = np.tile(mono, 2)
    whole = max(SEGMENT_FRAMES, len(mono) // SAMPLE_RATE_HZ * SAMPLE_RATE_HZ)
    return np.lib.stride_tricks.sliding_window_view(mono[:whole], SEGMENT_FRAMES)[::hop]


def _parsed(settings: Mapping[str, object]) -> QualitySettings:
    return forms.parse("quality", settings, QualitySettings, what="feature")


def check(settings: Mapping[str, object]) -> None:
    """See `headrace.features.check`."""
    _parsed(settings)


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.features.fingerprint`. It depends on the content of the model's file, not on its path."""
    parsed = _parsed(settings)
    return forms.fingerprint("quality", CODE_VERSION, parsed, weights.file_digest(_path(parsed)))


def load(settings: Mapping[str, object]) -> QualityFeature:
    """See `headrace.features.load`."""
    parsed = _parsed(settings)
    return QualityFeature(parsed, _path(parsed))


def _path(settings: QualitySettings) -> Path:
    return weights.named_file(settings.file, "feature quality: file")
