"""Opens MP4, Matroska and ASF (m4a, mp4, webm, wma) with PyAV, the extra `av`. Imports it when a file is opened.

libav applies the edit list of MP4 and the delay of the codec, so the first frame is the first of the recording. What it
cannot decode is an error here, never silence.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from headrace.audio.containers import EXTRA, Form, unsupported
from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.levels import Samples
from headrace.audio.sound import UNKNOWN_FRAMES, position_kept
from headrace.errors import AudioError

if TYPE_CHECKING:
    import av

LIBAV_FORMS = frozenset({Form.MP4, Form.MATROSKA, Form.ASF})
"""The forms that are opened here."""
_FORMATS = {Form.MP4: "mp4", Form.MATROSKA: "matroska", Form.ASF: "asf"}
_BITS = {"u8": 8, "s16": 16, "s32": 32}  # of formats with integers; `p` follows if channels are apart
_PRE_SKIP = slice(10, 12)  # of `OpusHead` (RFC 7845, section 5.1)


def libav_version() -> str:
    """Version of PyAV, which brings libav; empty if it is not installed."""
    return f" av-{version('av')}" if importlib.util.find_spec("av") else ""


class LibavSound:
    """An open recording that is read forward; an `opening.Sound`. Made by `open_libav`."""

    def __init__(self, frames: "Iterator[av.AudioFrame]", form: Form, codec: Any) -> None:  # noqa: ANN401 - PyAV's context
        """Decode the first frame, from which the facts follow."""
        self._frames = frames
        self._skip = _missed_skip(form, codec)
        first = self._next()
        self._waiting: list[Samples] = [] if first is None else [self._samples(first)]
        bits = None if first is None else _BITS.get(first.format.name.rstrip("p"))
        name = codec.name.upper()
        subtype = "LPCM" if name.startswith("PCM_") else f"{name}_{bits}" if bits else name
        rate, channels = (0, 0) if first is None else (first.sample_rate, first.layout.nb_channels)
        self.info = AudioInfo(form.name, subtype, 0 if first is None else UNKNOWN_FRAMES, rate, channels, bits)

    def read(self, num_frames: int, dtype: str) -> Samples:
        """The next frames, (frames, channels), with the values that libsndfile gives for this dtype."""
        while sum(map(len, self._waiting)) < num_frames and (frame := self._next()) is not None:
            self._waiting.append(self._samples(frame))
        if not self._waiting:
            return np.empty((0, self.info.num_channels), dtype)
        found = np.concatenate(self._waiting)
        self._waiting = [found[num_frames:]]
        return _converted(found[:num_frames], dtype)

    def seek(self, frame: int) -> None:
        """Not supported: most codings are lossy, and have to be decoded from the beginning."""
        raise NotImplementedError(f"seek to frame {frame} of a recording that is read by libav")

    def _next(self) -> "av.AudioFrame | None":
        return next((frame for frame in self._frames if frame.samples), None)

    def _samples(self, frame: "av.AudioFrame") -> Samples:
        """A frame's samples (frames, channels). Raises `AudioError` if its form differs from that of the first."""
        num_channels = frame.layout.nb_channels
        found = frame.to_ndarray()
        block: Samples = found.T if frame.format.is_planar else found.reshape(-1, num_channels)
        info = getattr(self, "info", None)
        if info is not None and (frame.sample_rate, num_channels) != (info.sample_rate_hz, info.num_channels):
            raise unsupported("a stream whose sample rate or channels change", "split the file")
        skipped, self._skip = min(self._skip, len(block)), max(0, self._skip - len(block))
        return block[skipped:]


@contextlib.contextmanager
def open_libav(file: BinaryIO, form: Form) -> Iterator[LibavSound]:
    """Open the audio stream of a recording at its beginning. The file's own position is restored at the end.

    Raises:
        AudioError: when opening or reading: `unsupported`, if the extra is not installed or there is no audio that can
            be decoded; `undecodable`.
    """
    try:
        import av  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise unsupported(f"{form.value}, which needs the extra av", EXTRA) from error
    with position_kept(file):
        file.seek(0)
        try:
            with av.open(file, mode="r", format=_FORMATS[form], metadata_errors="replace") as container:
                stream = container.streams.best("audio")
                if stream is None or stream.codec_context is None:
                    raise unsupported(f"{form.value} without audio that can be decoded", "keep it out of the source")
                stream.codec_context.thread_count = 1  # recordings are decoded on threads
                yield LibavSound(_decoded(container, stream), form, stream.codec_context)
        except av.FFmpegError as error:
            raise AudioError(
                AudioReject.UNDECODABLE, f"damaged {form.value}: libav reports: {error.strerror}; fetch it again"
            ) from error


def _decoded(container: Any, stream: Any) -> "Iterator[av.AudioFrame]":  # noqa: ANN401 - PyAV's objects
    """The frames of a stream in order. Raises `AudioError` for one that is marked as damaged."""
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise AudioError(AudioReject.UNDECODABLE, "damaged: libav marks a frame as corrupt; fetch it again")
        yield frame


def _missed_skip(form: Form, codec: Any) -> int:  # noqa: ANN401 - PyAV's context
    """Frames that libav should skip before Opus in Matroska, and does not.

    It counts the delay of the codec at the rate of the track, but decodes at 48 kHz.
    """
    head = bytes(codec.extradata or b"")
    if form is not Form.MATROSKA or codec.name != "opus" or len(head) < _PRE_SKIP.stop:
        return 0
    return max(0, int.from_bytes(head[_PRE_SKIP], "little") - int(codec.delay))


def _converted(block: Samples, dtype: str) -> Samples:
    """Samples in another dtype: integers of fewer bits are in the upper bits, floats have full scale 1.0."""
    if block.dtype == np.uint8:
        block = (block.astype(np.int16) - 128) << 8
    if block.dtype.kind == "f":
        return block.astype(dtype)
    wanted = np.dtype(dtype)
    if wanted.kind == "f":
        return np.divide(block, 1 << (8 * block.itemsize - 1), dtype=wanted)
    return np.left_shift(block, 8 * (wanted.itemsize - block.itemsize), dtype=wanted)
