"""Opening a recording with libsndfile: one way in, for headers and samples alike.

Owns the handle and the translation of libsndfile's refusals. Content decides the format, never the file's name.
"""

import contextlib
import io
import os
from collections.abc import Iterator
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


@contextlib.contextmanager
def open_sound(file: BinaryIO) -> Iterator[ForwardSound]:
    """A recording opened from the file's beginning; the file's own position is left as it was found.

    A plain file is read through its descriptor: libsndfile then calls no Python, which otherwise takes the GIL once
    per 8 kB. Only a file that Python itself opened counts as plain: `fileno()` of a GzipFile, say, is of other bytes.

    Raises:
        AudioError: on opening and on reading alike. Not audio that libsndfile reads (`unsupported`), a header or
            contents that are damaged (`undecodable`), FLAC whose end is missing (`truncated`).
    """
    descriptor = _plain_descriptor(file)
    before = file.tell() if descriptor is None else os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        with _opened(file, descriptor) as sound:
            yield sound
    except sf.LibsndfileError as error:
        raise _refusal(error, file, descriptor) from error
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


def _opened(file: BinaryIO, descriptor: int | None) -> ForwardSound:
    if descriptor is None:
        file.seek(0)
        return ForwardSound(_Nameless(file))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return ForwardSound(descriptor, closefd=False)


def _refusal(error: sf.LibsndfileError, file: BinaryIO, descriptor: int | None) -> AudioError:
    """What an error of libsndfile's means to the recording's owner."""
    if error.code in _UNRECOGNISED:
        return AudioError(Reject.UNSUPPORTED, "not a form of audio that libsndfile reads")
    if _flac_end_is_missing(file, descriptor):
        return AudioError(
            Reject.TRUNCATED, "FLAC cut off or damaged at its end: its last frame is gone; fetch it again"
        )
    return AudioError(
        Reject.UNDECODABLE, f"damaged: libsndfile stops with error {error.code}: {error.error_string} Fetch it again"
    )


def _flac_end_is_missing(file: BinaryIO, descriptor: int | None) -> bool:
    """Opens it anew: libFLAC gives the same error for both kinds of damage, and cannot be used after it."""
    try:
        with _opened(file, descriptor) as sound:
            if sound.format != "FLAC":
                return False
            try:
                sound.seek(sound.frames - 1)
                return len(sound.read(1)) == 0
            except sf.LibsndfileError:
                return True
    except sf.LibsndfileError:
        return False


def _plain_descriptor(file: BinaryIO) -> int | None:
    raw = file.raw if isinstance(file, io.BufferedReader | io.BufferedRandom) else file
    return raw.fileno() if isinstance(raw, io.FileIO) else None


class _Nameless:
    """A file as libsndfile calls it, without a name: soundfile would take one that ends in `.raw` for a format."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def seek(self, offset: int, whence: int) -> int:
        """Move; a damaged header can send libsndfile before the beginning, which it notices by staying where it is."""
        with contextlib.suppress(ValueError, OSError):
            return self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        """Where it stands."""
        return self._file.tell()

    def read(self, num_bytes: int) -> bytes:
        """The next bytes."""
        return self._file.read(num_bytes)

    def write(self, data: bytes) -> int:
        """Never called: soundfile asks for the method even to read."""
        raise io.UnsupportedOperation(f"{len(data)} bytes written to a recording")
