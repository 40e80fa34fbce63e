"""Opening a recording with libsndfile: one way in, for headers and samples alike.

Owns the handle and the translation of libsndfile's refusals. Content decides the format, never the file's name.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import soundfile as sf

from headrace.audio.forms import AudioInfo, Reject, bits_of_subtype
from headrace.errors import AudioError

_UNRECOGNISED = (1, 4)  # SF_ERR_UNRECOGNISED_FORMAT, SF_ERR_UNSUPPORTED_ENCODING
UNKNOWN_FRAMES = 1 << 62  # libsndfile reports 2**63 - 1 where the header leaves the length open


class ForwardSound(sf.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A sound file that goes on where the last call ended, as libsndfile itself does.

    soundfile seeks after each call on a file that can seek. That makes MP3 that is read in blocks differ from MP3 that
    is read at once (the decoder loses what it carries from frame to frame), and FLAC in small blocks five times slower.
    `seek` works nonetheless.
    """

    def seekable(self) -> bool:
        """Denied, so that soundfile leaves the position alone."""
        return False


@contextmanager
def open_sound(file: BinaryIO) -> Iterator[ForwardSound]:
    """A recording opened from the file's beginning; the file's own position is left as it was found.

    A plain file is read through its descriptor: libsndfile then calls no Python, which otherwise takes the GIL once
    per 8 kB. Only a file that Python itself opened counts as plain: `fileno()` of a GzipFile, say, is of other bytes.

    Raises:
        AudioError: not audio that libsndfile reads (`unsupported`), or a header that contradicts itself
            (`undecodable`); errors while reading, too.
    """
    descriptor = _plain_descriptor(file)
    before = file.tell() if descriptor is None else os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        with translated():
            if descriptor is None:
                file.seek(0)
                with ForwardSound(_Nameless(file)) as sound:
                    yield sound
            else:
                os.lseek(descriptor, 0, os.SEEK_SET)
                with ForwardSound(descriptor, closefd=False) as sound:
                    yield sound
    finally:
        if descriptor is None:
            file.seek(before)
        else:
            os.lseek(descriptor, before, os.SEEK_SET)


def info_of(sound: sf.SoundFile) -> AudioInfo:
    """What libsndfile says of an open recording."""
    return AudioInfo(
        sound.format, sound.subtype, sound.frames, sound.samplerate, sound.channels, bits_of_subtype(sound.subtype)
    )


@contextmanager
def translated() -> Iterator[None]:
    """Turn libsndfile's errors into `AudioError`."""
    try:
        yield
    except sf.LibsndfileError as error:
        if error.code in _UNRECOGNISED:
            raise AudioError(Reject.UNSUPPORTED, "not a form of audio that libsndfile reads") from error
        raise AudioError(
            Reject.UNDECODABLE,
            f"damaged: libsndfile stops with error {error.code} {error.error_string}; fetch it again",
        ) from error


def _plain_descriptor(file: BinaryIO) -> int | None:
    raw = file.raw if isinstance(file, io.BufferedReader | io.BufferedRandom) else file
    return raw.fileno() if isinstance(raw, io.FileIO) else None


class _Nameless:
    """A file without a name: soundfile would take a name that ends in `.raw` for a format."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self.read = file.seek, file.tell, file.read
        if hasattr(file, "readinto"):
            self.readinto = file.readinto
        self.write = _refuse_writing


def _refuse_writing(data: bytes) -> int:
    raise io.UnsupportedOperation(f"{len(data)} bytes written to a recording")
