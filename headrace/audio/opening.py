"""Opens a recording so that all of it is read.

libsndfile reads most recordings whole. Of some, it reads only a part, without an error: MP3 whose length it guesses,
MP3 and Ogg of several streams, Ogg with damaged pages. They are found here, and opened as parts that libsndfile reads
whole, or rejected.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from headrace.audio.forms import AudioInfo
from headrace.audio.levels import Samples
from headrace.audio.mpeg import MpegStream, mpeg_streams
from headrace.audio.ogg import MAGIC, ogg_links
from headrace.audio.parts import FilePart, open_parts
from headrace.audio.sound import ForwardSound, info_of, open_plain, position_kept

_MPEG = "MP3"
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


@contextlib.contextmanager
def open_sound(file: BinaryIO) -> Iterator[Sound]:
    """Open a recording at its beginning. The file's own position is restored at the end.

    Raises:
        AudioError: when opening or reading: see `sound.open_plain`, and for Ogg and MPEG audio `ogg_links` and
            `mpeg_streams`; `unsupported` if joined streams differ in form.
    """
    parts = _ogg_parts(file)
    if not parts:
        with open_plain(file) as sound:
            info = info_of(sound)
            if info.container != _MPEG:
                yield _WholeSound(sound, info)
                return
        info, parts = _mpeg_parts(file, info)  # after the `with`, because libsndfile uses the file's position too
    if parts:
        with position_kept(file), open_parts(file, parts) as joined:
            yield joined
    else:
        with open_plain(file) as sound:
            yield _WholeSound(sound, info)


def _ogg_parts(file: BinaryIO) -> list[FilePart]:
    """The chained streams of an Ogg file; none if libsndfile reads the file whole."""
    with position_kept(file):
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            return []
        links = ogg_links(file, file.seek(0, os.SEEK_END))
    return [FilePart((link,)) for link in links] if len(links) > 1 else []


def _mpeg_parts(file: BinaryIO, guess: AudioInfo) -> tuple[AudioInfo, list[FilePart]]:
    """Facts and streams of an MPEG audio file, given the facts that libsndfile reports.

    The list of streams is empty if libsndfile reads the file whole: the file has one stream, and its header has the
    right number of frames, or there is no header and libsndfile's guess is large enough.
    """
    with position_kept(file):
        streams = mpeg_streams(file, file.seek(0, os.SEEK_END))
    if len(streams) == 1 and len(streams[0].spans) == 1:
        stream, info = streams[0], streams[0].info
        if info is None and guess.num_frames >= stream.num_samples:
            return replace(guess, num_frames=stream.num_samples), []
        if info is not None and info.head and info.num_frames == stream.num_frames:
            return guess, []
    return guess, [_mpeg_part(stream) for stream in streams]


def _mpeg_part(stream: MpegStream) -> FilePart:
    """A stream with a corrected header; or, without a header, padded so that libsndfile guesses enough frames."""
    if stream.info is not None and stream.info.head:
        return FilePart(tuple(stream.spans), head=stream.info.counting(stream.num_frames))
    num_bytes = (stream.num_frames + 2) * (stream.largest_frame_bytes + _FRAME_HEADER_BYTES)
    return FilePart(tuple(stream.spans), num_bytes=num_bytes, num_frames=stream.num_samples)
