"""Applies the user's function of `audio.transform` to the audio of a sample, before it is converted.

The whole sample is in memory. An error of the function, or a result that is no audio, is an error of this sample alone.
"""

import copy
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.audio.conversion import Conversion, form_of
from headrace.audio.forms import (
    MAX_CHANNELS,
    MAX_SAMPLE_RATE_HZ,
    AudioFormat,
    AudioInfo,
    AudioReject,
    EncodedSegment,
    Segment,
)
from headrace.audio.levels import Samples, first_non_finite
from headrace.audio.segments import plan_segments
from headrace.errors import AudioError, ConfigError, HeadraceError

TRANSFORM_DTYPE = "float32"
TransformFunction = Callable[[Samples, int, dict[str, Any]], tuple[Any, Any]]
"""`function(audio float32 (channels, frames), sample_rate, metadata)` returns `(audio, sample_rate)`."""


def load_transform(name: str) -> TransformFunction:
    """Import `module:function`. Raises `ConfigError` if that fails."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise ConfigError(
            f"audio.transform.function {name}: importing it raised {type(error).__name__}: {error}; expected "
            "module:function, with the module's folder on PYTHONPATH"
        ) from error
    if not callable(found):
        raise ConfigError(f"audio.transform.function {name}: expected a function, found {type(found).__name__}")
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class TransformedConversion:
    """The conversion of a sample through `wanted.transform`; like `Conversion`, for which the result is the source.

    Attributes:
        info: facts of the sample's audio before it: those of the recording, with the number of its channels.
        wanted: format in the shard, with a transform.
        metadata: the user's columns.
    """

    info: AudioInfo
    wanted: AudioFormat
    metadata: Mapping[str, Any]

    @property
    def reading_dtype(self) -> str:
        """Dtype to decode to."""
        return TRANSFORM_DTYPE

    def encoded_whole(self, blocks: Iterable[Samples], num_frames: int) -> EncodedSegment | AudioError:
        """The sample in its codec, from all of its frames; or what is wrong with the result of the function."""
        read = list(blocks)  # errors of the recording are raised
        try:
            (encoded,) = self._encoded(read, replace(self.info, num_frames=num_frames), None)
        except AudioError as error:
            return error
        return encoded

    def segments(self, blocks: Sequence[Samples], segments: Sequence[Segment]) -> Iterator[EncodedSegment]:
        """Segments of a whole recording. Raises `AudioError` for a result that is no audio, or of another length."""
        is_cut = self.wanted.segment_seconds is not None
        return self._encoded(blocks, self.info, segments if is_cut else None)

    def _encoded(
        self, blocks: Sequence[Samples], info: AudioInfo, segments: Sequence[Segment] | None
    ) -> Iterator[EncodedSegment]:
        """Segments of the transformed audio; without any, all of it as one."""
        audio, rate_hz = self._transformed(np.concatenate(blocks), info.sample_rate_hz)
        found = replace(info, num_frames=len(audio), sample_rate_hz=rate_hz, num_channels=audio.shape[1])
        job = Conversion(found, form_of(found, self.wanted))
        planned = plan_segments(found.num_frames, rate_hz, self.wanted)
        if not planned:
            raise self._failed(f"returned {len(audio)} frames at {rate_hz} Hz, which leave none in the shard")
        if segments is not None and planned != plan_segments(info.num_frames, info.sample_rate_hz, self.wanted):
            raise self._failed(
                f"made {info.num_frames} frames at {info.sample_rate_hz} Hz {len(audio)} frames at {rate_hz} Hz; with "
                "audio.segment_seconds it has to keep the length, and the rate unless audio.sample_rate is set"
            )
        for segment in planned if segments is None else segments:
            window = job.window(segment)
            block = audio[window.start_frame : window.stop_frame]
            yield job.encoded([block.astype(np.float64) if job.mixes else block], segment, window)

    def _transformed(self, audio: Samples, rate_hz: int) -> tuple[Samples, int]:
        """Audio (frames, channels) after the function, and its rate."""
        assert self.wanted.transform is not None, "only made with a transform"
        function = load_transform(self.wanted.transform.function)
        try:
            result = function(np.ascontiguousarray(audio.T), rate_hz, copy.deepcopy(dict(self.metadata)))
        except (HeadraceError, MemoryError):
            raise
        except Exception as error:
            raise self._failed(f"raised {type(error).__name__}: {error}") from error
        return self._checked(result)

    def _checked(self, result: object) -> tuple[Samples, int]:
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._failed(f"must return (audio, sample_rate), found {type(result).__name__}")
        audio, rate = np.asarray(result[0]), result[1]
        if audio.ndim != 2 or audio.dtype.kind != "f" or not 1 <= len(audio) <= MAX_CHANNELS or not audio.shape[1]:
            raise self._failed(
                f"must return float32 audio (1 to {MAX_CHANNELS} channels, frames), found {audio.dtype} {audio.shape}"
            )
        if not isinstance(rate, int | np.integer) or isinstance(rate, bool) or not 1 <= rate <= MAX_SAMPLE_RATE_HZ:
            raise self._failed(f"must return a sample rate of 1 to {MAX_SAMPLE_RATE_HZ} Hz, found {rate!r}")
        audio = np.ascontiguousarray(audio.T, TRANSFORM_DTYPE)
        if (frame := first_non_finite(audio)) is not None:
            raise self._failed(f"returned NaN or an infinity in frame {frame}")
        return audio, int(rate)

    def _failed(self, what: str) -> AudioError:
        name = self.wanted.transform.function if self.wanted.transform else ""
        return AudioError(AudioReject.TRANSFORM_FAILED, f"audio.transform: {name} {what}")
