"""Opens a recording so that all of it is read.

libsndfile reads most recordings whole. Of some, it reads only a part, without an error: MP3 whose length it guesses,
MP3 and Ogg of several streams, Ogg with damaged pages. They are found here, and opened as parts that libsndfile reads
whole, or rejected. Channels come in the order of WAV (`headrace.audio.channels`).
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

import numpy as np

from headrace.audio.channels import wav_order
from headrace.audio.containers import Form, form_of, unsupported
from headrace.audio.forms import AudioInfo
from headrace.audio.levels import Samples
from headrace.audio.libav_sound import LIBAV_FORMS, open_libav
from headrace.audio.mpeg import InfoHeader, MpegStream, mpeg_streams
from headrace.audio.ogg import ogg_links
from headrace.audio.ogg_heads import parts_of
from headrace.audio.parts import FilePart, open_parts
from headrace.audio.sound import ForwardSound, info_of, open_plain, position_kept

_XING_TOLERANCE = 0.01  # beyond it, the decoder writes a warning to the standard error
_FRAME_HEADER_BYTES = 4


class Sound(Protocol):
    """An open recording that is read forward."""

    @property
    def info(self) -> AudioInfo:
        """Facts of the recording; `num_frames` is `sound.UNKNOWN_FRAMES` if only decoding can find it."""

    def read(self, num_frames: int, dtype: str) -> Samples:
        """The next frames, (frames, channels), in a dtype that libsndfile supports; fewer at the end."""

    def seek(self, frame: int) -> None:
        """Move to a frame. Only for recordings whose `info.has_exact_seek` is true."""


@dataclass(frozen=True, slots=True)
class _WholeSound:
    """A recording that libsndfile reads whole."""

    sound: ForwardSound
    info: AudioInfo

    def read(self, num_frames: int, dtype: str) -> Samples:
        """See `Sound.read`."""
        block: Samples = self.sound.read(num_frames, dtype=dtype, always_2d=True)
        return block

    def seek(self, frame: int) -> None:
        """See `Sound.seek`."""
        self.sound.seek(frame)


@dataclass(frozen=True, slots=True)
class _ReorderedSound:
    """A sound with its channels in another order."""

    sound: Sound
    order: tuple[int, ...]

    @property
    def info(self) -> AudioInfo:
        """See `Sound.info`."""
        return self.sound.info

    def read(self, num_frames: int, dtype: str) -> Samples:
        """See `Sound.read`."""
        return np.take(self.sound.read(num_frames, dtype), self.order, axis=1)

    def seek(self, frame: int) -> None:
        """See `Sound.seek`."""
        self.sound.seek(frame)


def whole_sound(sound: ForwardSound, info: AudioInfo) -> Sound:
    """A recording that libsndfile reads whole, and facts of it."""
    return _WholeSound(sound, info)


@contextlib.contextmanager
def open_sound(file: BinaryIO) -> Iterator[Sound]:
    """Open a recording at its beginning, without a tag in front of it (`tags.behind_tag`).

    The file's own position is restored at the end.

    Raises:
        AudioError: when opening or reading: see `containers.form_of`, `sound.open_plain`, and for Ogg and MPEG audio
            `ogg_links`, `ogg_heads.parts_of` and `mpeg_streams`; `unsupported` if joined streams differ in form.
    """
    with position_kept(file):  # before libsndfile uses the position too
        num_bytes = file.seek(0, os.SEEK_END)
        form = form_of(file, num_bytes)
        streams = mpeg_streams(file, num_bytes) if form is Form.MPEG else []
        parts = parts_of(file, ogg_links(file, num_bytes)) if form is Form.OGG else []
        order = wav_order(file, form, num_bytes)
    if form in LIBAV_FORMS:
        with open_libav(file, form) as sound:
            yield sound
        return
    info = None
    if streams:
        info, parts = _mpeg_parts(file, streams, num_bytes)
    with _open_parts(file, parts) if parts else _open_whole(file, info) as whole:
        if order and len(order) != whole.info.num_channels:
            raise unsupported(
                f"{whole.info.num_channels} channels with a layout of {len(order)}",
                "write it again (ffmpeg -i OLD NEW.wav)",
            )
        yield _ReorderedSound(whole, order) if list(order) != sorted(order) else whole


@contextlib.contextmanager
def _open_parts(file: BinaryIO, parts: Sequence[FilePart]) -> Iterator[Sound]:
    with position_kept(file), open_parts(file, parts) as joined:
        yield joined


@contextlib.contextmanager
def _open_whole(file: BinaryIO, info: AudioInfo | None) -> Iterator[Sound]:
    with open_plain(file) as sound:
        yield _WholeSound(sound, info or info_of(sound))


def _mpeg_parts(
    file: BinaryIO, streams: Sequence[MpegStream], num_bytes: int
) -> tuple[AudioInfo | None, list[FilePart]]:
    """Facts and parts of an MPEG audio file.

    The list of parts is empty if libsndfile reads the file whole: the file has one stream, and its header has the
    right number of frames and bytes, or there is no header and libsndfile's guess is large enough.
    """
    if len(streams) == 1 and len(streams[0].spans) == 1:
        stream, info = streams[0], streams[0].info
        if info is None or (info.num_frames == stream.num_frames and _states_size(info, num_bytes)):
            with open_plain(file) as sound:
                guess = info_of(sound)
            if info is not None:
                return guess, []
            if guess.num_frames >= stream.num_samples:
                return replace(guess, num_frames=stream.num_samples), []
    return None, [_mpeg_part(stream) for stream in streams]


def _states_size(info: InfoHeader, num_bytes: int) -> bool:
    """Whether an Info header is one that libsndfile uses, and does not state another size than the file has."""
    has_size = info.stream_bytes is None or abs(info.stream_bytes - num_bytes) <= _XING_TOLERANCE * num_bytes
    return bool(info.head) and has_size


def _mpeg_part(stream: MpegStream) -> FilePart:
    """A stream with a corrected header; or, without a header, padded so that libsndfile guesses enough frames."""
    if stream.info is not None and stream.info.head:
        return FilePart(tuple(stream.spans), head=stream.info.counting(stream.num_frames))
    num_bytes = (stream.num_frames + 2) * (stream.largest_frame_bytes + _FRAME_HEADER_BYTES)
    return FilePart(tuple(stream.spans), num_bytes=num_bytes, num_frames=stream.num_samples)
