"""Opens a recording with libsndfile, and translates libsndfile's errors.

The format is found from the content, never from a file name. `headrace.audio.opening` makes sure that all of a
recording is read.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import BinaryIO

import soundfile as sf

from headrace.audio.flac import MAGIC
from headrace.audio.forms import AudioInfo, AudioReject, bits_of_subtype
from headrace.errors import AudioError

_UNRECOGNISED = (1, 4, 18, 92, 106, 110)  # the format, or its coding, is unknown to libsndfile
UNKNOWN_FRAMES = 1 << 62  # libsndfile reports 2**63 - 1 if the header has no length


class ForwardSound(sf.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A sound file in which each read continues after the last one, without a seek.

    soundfile seeks after each read of a seekable file. As a result, MP3 that is read in blocks differs from MP3 that is
    read at once (the decoder loses its state), and FLAC in small blocks is five times slower. `seek` works as usual.
    """

    def seekable(self) -> bool:
        """False, so that soundfile does not seek by itself."""
        return False


@contextlib.contextmanager
def open_plain(file: BinaryIO) -> Iterator[ForwardSound]:
    """Open a recording at its beginning. The file's own position is restored at the end.

    A plain file is read through its descriptor. Otherwise libsndfile would call Python, and take the GIL, once per 8
    kB. Only a file that Python itself opened is plain: for example, `fileno()` of a GzipFile has other bytes.

    Raises:
        AudioError: when opening or reading: the file is not audio that libsndfile reads (`unsupported`), its header or
            content is damaged (`undecodable`), or the end of a FLAC file is missing (`truncated`).
    """
    descriptor = plain_descriptor(file)
    before = file.tell() if descriptor is None else os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        with _opened(file, descriptor) as sound:
            yield sound
    except sf.LibsndfileError as error:
        if error.code not in _UNRECOGNISED and _flac_end_is_missing(file, descriptor):
            found = "FLAC truncated, or damaged at its end: its last frame is missing; fetch it again"
            raise AudioError(AudioReject.TRUNCATED, found) from error
        raise refusal(error, is_flac=_begins(file, descriptor) == MAGIC) from error
    finally:
        if not file.closed:  # as by a caller who reads only a part
            if descriptor is None:
                file.seek(before)
            else:  # the descriptor's position, which differs from Python's because of buffering
                os.lseek(descriptor, before, os.SEEK_SET)


@contextlib.contextmanager
def position_kept(file: BinaryIO) -> Iterator[None]:
    """Context that restores the position of a file at its end."""
    before = file.tell()
    try:
        yield
    finally:
        file.seek(before)


def info_of(sound: sf.SoundFile) -> AudioInfo:
    """Facts of an open recording, as libsndfile reports them."""
    return AudioInfo(
        sound.format, sound.subtype, sound.frames, sound.samplerate, sound.channels, bits_of_subtype(sound.subtype)
    )


def _opened(file: BinaryIO, descriptor: int | None) -> ForwardSound:
    if descriptor is None:
        file.seek(0)
        return ForwardSound(_Nameless(file))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return ForwardSound(descriptor, closefd=False)


def refusal(error: sf.LibsndfileError, *, is_flac: bool = False) -> AudioError:
    """The `AudioError` for an error of libsndfile. FLAC has only one coding: if it is not recognised, it is damaged."""
    if error.code in _UNRECOGNISED and not is_flac:
        found = f"{error.error_string} Decode it to FLAC or WAV first (ffmpeg -i OLD NEW.flac)"
        return AudioError(AudioReject.UNSUPPORTED, f"not a form of audio that is read: libsndfile reports: {found}")
    return AudioError(
        AudioReject.UNDECODABLE,
        f"damaged: libsndfile reports error {error.code}: {error.error_string} Fetch it again",
    )


def _begins(file: BinaryIO, descriptor: int | None) -> bytes:
    """The first bytes of a file, as many as the magic of FLAC has."""
    if descriptor is not None:
        return os.pread(descriptor, len(MAGIC), 0)
    file.seek(0)
    return file.read(len(MAGIC))


def _flac_end_is_missing(file: BinaryIO, descriptor: int | None) -> bool:
    """Whether a FLAC file lacks its last frame.

    The file is opened again, because libFLAC reports the same error for other damage, and cannot be used after it.
    """
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


def plain_descriptor(file: BinaryIO) -> int | None:
    """The descriptor of a file that Python opened; None for other objects, whose bytes may differ from those of it."""
    raw = file.raw if isinstance(file, io.BufferedReader | io.BufferedRandom) else file
    return raw.fileno() if isinstance(raw, io.FileIO) else None


class _Nameless:
    """A file without a name for soundfile, which would otherwise take the format from a name that ends in `.raw`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def seek(self, offset: int, whence: int) -> int:
        """Move. A damaged header can make libsndfile seek before the beginning; then the position stays."""
        with contextlib.suppress(ValueError, OSError):
            return self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        """The current position."""
        return self._file.tell()

    def read(self, num_bytes: int) -> bytes:
        """Read the next bytes."""
        return self._file.read(num_bytes)

    def write(self, data: bytes) -> int:
        """Not supported; soundfile requires the method even for reading."""
        raise io.UnsupportedOperation(f"write of {len(data)} bytes to a recording")
