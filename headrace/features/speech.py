"""`kind: speech`: where there is speech, by the voice activity detector silero.

The model runs from the file in its package, which is not imported.
"""

from collections.abc import Iterator, Mapping
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
from headrace.features.speech_intervals import SpeechRule, speech_intervals

CODE_VERSION = 1
SAMPLE_RATE_HZ = 16_000
_CHUNK, _CONTEXT = 512, 64  # PCM frames that a probability is of, and of those before them that the model takes
_CHUNKS_AT_ONCE = 2048  # about a minute, 5 MB

_Seconds = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class SpeechSettings:
    """Settings of `kind: speech`; the defaults are those of silero's `get_speech_timestamps`.

    Attributes:
        file: path of the model, or `package:path`, a file of an installed package, which is not imported. It takes
            audio as (chunks, 64 + 512) at 16 kHz, and two states.
        threshold: probability from which a chunk of 32 ms begins speech. Below `threshold` - 0.15, but at least 0.01,
            it may end speech.
        min_speech_seconds: intervals of this length or less are dropped, before padding.
        min_silence_seconds: silence that ends an interval.
        padding_seconds: added before and after each interval; half of the silence between two that are nearer.
    """

    file: str = field(default="silero_vad:data/silero_vad_16k_sequence.onnx", metadata={"results": False})
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    min_speech_seconds: _Seconds = 0.25
    min_silence_seconds: _Seconds = 0.1
    padding_seconds: _Seconds = 0.03

    def rule(self) -> SpeechRule:
        """The rule in PCM frames."""
        seconds = (self.min_speech_seconds, self.min_silence_seconds, self.padding_seconds)
        return SpeechRule(_CHUNK, self.threshold, *(SAMPLE_RATE_HZ * one for one in seconds))


class SpeechFeature:
    """Speech in a sample; a `Feature`."""

    columns: ClassVar[Mapping[str, str]] = {"speech_share": "float", "speech": "intervals"}
    sample_rate_hz, num_channels, is_concurrent = SAMPLE_RATE_HZ, 1, True

    def __init__(self, settings: SpeechSettings, path: Path) -> None:
        self._rule, self._session = settings.rule(), open_session(path, "feature speech")
        self._inputs = self._session.get_inputs()
        shapes = [list(one.shape) for one in self._inputs]
        num_outputs = len(self._session.get_outputs())
        if len(shapes) != 3 or num_outputs != 3 or shapes[0][1:] != [_CHUNK + _CONTEXT]:
            raise ConfigError(
                f"feature speech: file: {path.name} takes inputs of {shapes} and gives {num_outputs} outputs; expected "
                f"audio of (chunks, {_CHUNK + _CONTEXT}) and two states, as silero_vad_16k_sequence.onnx has"
            )

    def measure(self, audio: Audio, sample_rate_hz: int) -> Mapping[str, Any]:  # noqa: ARG002 - always 16 kHz
        """See `Feature`."""
        num_frames = audio.shape[1]
        found = speech_intervals(self.probabilities(audio[0]), num_frames, self._rule)
        spoken = sum(end - start for start, end in found)
        times = [{"start": start / SAMPLE_RATE_HZ, "end": end / SAMPLE_RATE_HZ} for start, end in found]
        return {"speech_share": spoken / max(1, num_frames), "speech": times}

    def probabilities(self, mono: "np.ndarray[Any, np.dtype[np.float32]]") -> list[float]:
        """The probability that each chunk of 512 frames at 16 kHz is speech; zeros fill the last one."""
        state = [np.zeros(one.shape, np.float32) for one in self._inputs[1:]]
        found: list[float] = []
        for chunks in _blocks(mono):
            given = zip((one.name for one in self._inputs), (chunks, *state), strict=True)
            probabilities, *state = self._session.run(None, dict(given))
            found += probabilities.ravel().tolist()
        return found


def _blocks(mono: "np.ndarray[Any, np.dtype[np.float32]]") -> "Iterator[np.ndarray[Any, np.dtype[np.float32]]]":
    """The chunks of a recording, some at a time: (chunks, context + chunk)."""
    padded = np.pad(mono, (_CONTEXT, -len(mono) % _CHUNK))
    chunks = np.lib.stride_tricks.sliding_window_view(padded, _CONTEXT + _CHUNK)[::_CHUNK]
    for first in range(0, len(chunks), _CHUNKS_AT_ONCE):
        yield np.ascontiguousarray(chunks[first : first + _CHUNKS_AT_ONCE])


def _parsed(settings: Mapping[str, object]) -> SpeechSettings:
    return forms.parse("speech", settings, SpeechSettings, what="feature")


def check(settings: Mapping[str, object]) -> None:
    """See `headrace.features.check`."""
    _parsed(settings)


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.features.fingerprint`. It depends on the content of the model's file, not on its path."""
    parsed = _parsed(settings)
    return forms.fingerprint("speech", CODE_VERSION, parsed, weights.file_digest(_path(parsed)))


def load(settings: Mapping[str, object]) -> SpeechFeature:
    """See `headrace.features.load`."""
    parsed = _parsed(settings)
    return SpeechFeature(parsed, _path(parsed))


def _path(settings: SpeechSettings) -> Path:
    return weights.named_file(settings.file, "feature speech: file")
