"""Decodes an audio file in memory, or a part of it, to float32.

Plain FLAC is decoded by `headrace.audio.flac`. Other formats, and FLAC of unknown length, are decoded by libsndfile.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from headrace.audio.flac import MAGIC, FlacBytes, decode_flac_into, known_flac
from headrace.audio.flac_frames import decode_flac_part
from headrace.audio.forms import AudioInfo
from headrace.audio.headers import check_whole
from headrace.audio.memory_file import memory_file
from headrace.audio.opening import Sound, open_sound
from headrace.audio.probe import probe
from headrace.audio.reader import FrameReader
from headrace.audio.sound import UNKNOWN_FRAMES
from headrace.audio.tags import without_tag

_BLOCK_FRAMES = 1 << 18
_SKIPPED_FRAMES = 1 << 14  # decoded at a time before the wanted part: fits the cache


def decode(data: FlacBytes) -> tuple[npt.NDArray[np.float32], int]:
    """Decode a whole audio file of any format that libsndfile opens.

    Returns:
        Samples, float32 (channels, frames), C-contiguous; and the sample rate in Hz. Full scale is 1.0: integers
        become values in [-1, 1), floats keep their values. Lossy codings may exceed full scale by a little.

    Raises:
        AudioError: see `probe`; or the audio is damaged, truncated, or not finite.
    """
    data = without_tag(data)
    if (info := known_flac(data)) is not None:
        samples = np.empty((info.num_channels, info.num_frames), np.float32)
        decode_flac_into(data, samples)
        return samples, info.sample_rate_hz
    with open_encoded(data) as audio:
        samples = np.empty((audio.info.num_channels, audio.info.num_frames), np.float32)
        audio.read_into(samples, 0)
    return samples, audio.info.sample_rate_hz


def decode_into(data: FlacBytes, out: npt.NDArray[np.float32], start_frame: int = 0) -> None:
    """Decode a part of an audio file of any format, frames from `start_frame` on. See `EncodedAudio.read_into`.

    Args:
        data: a whole audio file.
        out: float32 (channels, frames), any strides; it is filled.
        start_frame: the first frame.

    Raises:
        AudioError: see `probe`; or the audio is damaged, truncated, or not finite.
        ValueError: `out` has the wrong shape, or the frames are outside of the file.
    """
    data = without_tag(data)
    if bytes(data[:4]) == MAGIC:
        decode_flac_part(data, out, start_frame)
        return
    with open_encoded(data) as audio:
        audio.read_into(out, start_frame)


class EncodedAudio:
    """An audio file in memory that is about to be decoded. Made by `open_encoded`."""

    def __init__(self, sound: Sound, info: AudioInfo) -> None:
        """Take an open sound at its beginning, and its facts with the right number of frames."""
        self.info = info
        self._sound = sound

    def read_into(self, out: npt.NDArray[np.float32], start_frame: int) -> None:
        """Decode frames from `start_frame` on. Call it once.

        The values are those of the same frames when the whole file is decoded. Lossy codings are decoded from the
        beginning, because their decoders have a state; all others begin at the frame.

        Args:
            out: float32 (channels, frames), any strides; it is filled.
            start_frame: the first frame.

        Raises:
            AudioError: the audio is damaged, truncated, or not finite.
            ValueError: `out` has the wrong shape, or the frames are outside of the file.
        """
        info, stop = self.info, start_frame + out.shape[1]
        if out.shape[0] != info.num_channels or not 0 <= start_frame <= stop <= info.num_frames:
            raise ValueError(
                f"frames {start_frame}:{stop} of {out.shape[0]} channels requested; the file has {info.num_frames} "
                f"frames of {info.num_channels} channels"
            )
        reader = FrameReader(
            self._sound, info, dtype="float32", block_frames=_BLOCK_FRAMES, skip_frames=_SKIPPED_FRAMES
        )
        done = 0
        for block in reader.blocks(start_frame, stop):
            for channel in range(info.num_channels):  # column by column, as in `headrace.audio.flac`
                out[channel, done : done + len(block)] = block[:, channel]
            done += len(block)


@contextlib.contextmanager
def open_encoded(data: FlacBytes) -> Iterator[EncodedAudio]:
    """Open an audio file of any format that libsndfile opens. All of its facts are read, and nothing is decoded.

    Raises:
        AudioError: see `probe`.
    """
    data = without_tag(data)
    with _file_of(data) as file:
        if len(data):
            check_whole(file, len(data))
            with open_sound(file) as sound:
                info = sound.info
                if 0 < info.num_frames < UNKNOWN_FRAMES and info.container != "FLAC":
                    yield EncodedAudio(sound, info)
                    return
        info = probe(file, num_bytes=len(data))  # a stream whose frames have to be counted, or an error
        with open_sound(file) as sound:
            yield EncodedAudio(sound, replace(sound.info, num_frames=info.num_frames))


@contextlib.contextmanager
def _file_of(data: FlacBytes) -> Iterator[BinaryIO]:
    """A file of these bytes with a descriptor.

    Of an object without one, libsndfile reads by calls of Python: two for each frame of MP3, for each of which a
    decoding thread waits for the GIL.
    """
    with memory_file() as descriptor, open(descriptor, "r+b", closefd=False) as file:
        file.write(data)
        file.truncate()  # it may have older content
        file.seek(0)
        yield file
