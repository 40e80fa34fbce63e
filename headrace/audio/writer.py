"""Encodes blocks of PCM as one FLAC stream, in memory or in a temporary file.

Equal samples, form and `codec_version()` give equal bytes, with one exception: libFLAC chooses its predictors in
floating point, with the vector instructions of the CPU. Another CPU may give other bytes, but never other audio.
"""

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast

import numpy as np
import soundfile as sf
import soxr

from headrace.audio.levels import Samples
from headrace.audio.sound import ForwardSound
from headrace.errors import BuildError
from headrace.machine import anonymous_file

_OWN_VERSION = 2  # increase it if equal input gives other bytes for a reason that no library's version shows
_IN_MEMORY_BYTES = 32 << 20  # of PCM; what may be larger goes to a temporary file
_COPY_BYTES = 1 << 20
_VENDOR = b"reference libFLAC "


@dataclass(frozen=True, slots=True)
class FlacForm:
    """The form of one recording in its shard, without open choices."""

    sample_rate_hz: int
    num_channels: int
    bits: Literal[16, 24]
    compression_level: int

    def fits_in_memory(self, num_frames: int) -> bool:
        """Whether this many frames are few enough to be kept in memory."""
        return num_frames * self.num_channels * (self.bits // 8) <= _IN_MEMORY_BYTES


def write_flac(blocks: Iterable[Samples], num_frames: int, form: FlacForm) -> tuple[bytes | BinaryIO, int]:
    """Encode blocks (frames, channels) with `num_frames` frames in total. Returns the payload and its size in bytes.

    The encoder writes to a descriptor (in memory, a memfd) and not to a Python object. The GIL is then taken a few
    times per recording instead of once per 4,096 frames.

    Raises:
        BuildError: the encoder or the disk failed.
    """
    in_memory = form.fits_in_memory(num_frames)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_memory_file() if in_memory else _disk_file())
        _encode(blocks, num_frames, file.fileno(), form)
        num_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        if in_memory:
            return file.read(), num_bytes
        stack.pop_all()  # the caller closes the file
        return file, num_bytes


def copy_file(file: BinaryIO, num_frames: int, form: FlacForm) -> tuple[bytes | BinaryIO, int]:
    """Copy a FLAC file from its current position. Returns the payload and its size in bytes, as `write_flac` does."""
    if form.fits_in_memory(num_frames):
        data = file.read()
        return data, len(data)
    copy = _disk_file()
    while chunk := file.read(_COPY_BYTES):
        copy.write(chunk)
    num_bytes = copy.tell()
    copy.seek(0)
    return copy, num_bytes


@functools.cache
def codec_version() -> str:
    """Versions of the libraries and of this project's code, on which the bytes of an encoded segment depend.

    The version of libFLAC, which is built into libsndfile, is read from a stream that it writes.
    """
    sample, _ = write_flac([np.zeros((1, 1), np.int16)], 1, FlacForm(44_100, 1, 16, 5))
    flac = cast("bytes", sample).split(_VENDOR)[1].split()[0].decode()
    return f"headrace-audio-{_OWN_VERSION} {sf.__libsndfile_version__} libFLAC-{flac} {soxr.__libsoxr_version__}"


def _memory_file() -> BinaryIO:
    """An unnamed file, in memory if the system supports it."""
    return cast("BinaryIO", os.fdopen(anonymous_file("headrace-flac"), "w+b", buffering=0))


def _disk_file() -> BinaryIO:
    """An unnamed file in the temporary folder, which disappears with its last handle, even after a kill."""
    return cast("BinaryIO", tempfile.TemporaryFile(buffering=0))


def _encode(blocks: Iterable[Samples], num_frames: int, descriptor: int, form: FlacForm) -> None:
    written = 0
    try:
        with ForwardSound(
            descriptor,
            "w",
            samplerate=form.sample_rate_hz,
            channels=form.num_channels,
            format="FLAC",
            subtype=f"PCM_{form.bits}",
            compression_level=form.compression_level / 8,
            closefd=False,
        ) as sound:
            for block in blocks:
                _write(sound, block)
                written += len(block)
    except _EncoderError as error:
        raise BuildError(f"FLAC could not be encoded ({error.__cause__}): is the temporary folder full?") from error
    if written != num_frames:
        raise BuildError(f"expected {num_frames} frames to encode, found {written}: please report this bug")


def _write(sound: sf.SoundFile, block: Samples) -> None:
    """Write a block. The encoder's errors become `_EncoderError`, to distinguish them from errors of the source."""
    try:
        sound.write(np.ascontiguousarray(block))
    except sf.SoundFileError as error:
        raise _EncoderError from error


class _EncoderError(Exception):
    """An error of the encoder, and not of the source that is read in the same loop."""
