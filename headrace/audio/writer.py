"""Encodes blocks of PCM as one stream, FLAC or Ogg Opus, in memory or in a temporary file.

Equal samples, form and `codec_version()` give equal bytes, with one exception: libFLAC chooses its predictors in
floating point, with the vector instructions of the CPU. Another CPU may give other bytes, but never other audio. Opus
encodes in floating point: another CPU may give other bytes, and audio that differs by less than the coding's own noise.

libsndfile gives each Ogg stream a random serial number. It is replaced by 0 here, and by a number of the sample in
`with_serial`.
"""

import functools
import hashlib
import io
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import soundfile as sf
import soxr

from headrace.audio.forms import OPUS_BITRATES, Codec
from headrace.audio.levels import Samples
from headrace.audio.memory_file import memory_file
from headrace.audio.ogg import set_serial
from headrace.audio.sound import ForwardSound
from headrace.errors import BuildError

_OWN_VERSION = 3  # increase it if equal input gives other bytes for a reason that no library's version shows
_IN_MEMORY_BYTES = 32 << 20  # of PCM; what may be larger goes to a temporary file
_COPY_BYTES = 1 << 20
_VENDOR = b"reference libFLAC "
_OPUS_VENDOR = b"OpusTags"


@dataclass(frozen=True, slots=True)
class StreamForm:
    """The form of one recording in its shard, without open choices.

    Attributes:
        sample_rate_hz: sample rate.
        num_channels: channels.
        bits: bits of the PCM that is encoded.
        compression_level: of FLAC, 0 to 8.
        opus_bitrate: bits per second for each channel of Opus; None for FLAC.
    """

    sample_rate_hz: int
    num_channels: int
    bits: Literal[16, 24]
    compression_level: int
    opus_bitrate: int | None = None

    @property
    def codec(self) -> Codec:
        """FLAC or Opus."""
        return Codec.FLAC if self.opus_bitrate is None else Codec.OPUS

    @property
    def options(self) -> dict[str, Any]:
        """The encoder's settings, in libsndfile's terms."""
        if self.opus_bitrate is None:
            return {"format": "FLAC", "subtype": f"PCM_{self.bits}", "compression_level": self.compression_level / 8}
        least, most = OPUS_BITRATES  # libsndfile's level is the bit rate, upside down
        return {"format": "OGG", "subtype": "OPUS", "compression_level": (most - self.opus_bitrate) / (most - least)}

    def fits_in_memory(self, num_frames: int) -> bool:
        """Whether this many frames are few enough to be kept in memory."""
        return num_frames * self.num_channels * (self.bits // 8) <= _IN_MEMORY_BYTES


def write_stream(blocks: Iterable[Samples], num_frames: int, form: StreamForm) -> tuple[bytes | BinaryIO, int]:
    """Encode blocks (frames, channels) with `num_frames` frames in total. Returns the payload and its size in bytes.

    The encoder writes to a descriptor (in memory, a memfd) and not to a Python object. The GIL is then taken a few
    times per recording instead of once per 4,096 frames.

    Raises:
        BuildError: the encoder or the disk failed.
    """
    if form.fits_in_memory(num_frames):
        with memory_file() as descriptor:
            _encode(blocks, num_frames, descriptor, form)
            with open(descriptor, "r+b", buffering=0, closefd=False) as stream:
                num_bytes = _finish(stream, form)
                return stream.read(), num_bytes
    file = _disk_file()
    try:
        _encode(blocks, num_frames, file.fileno(), form)
        return file, _finish(file, form)
    except BaseException:
        file.close()
        raise


def _finish(file: BinaryIO, form: StreamForm) -> int:
    """Complete an encoded stream. Returns its size in bytes; the file is at its beginning."""
    if form.codec is Codec.OPUS:
        set_serial(file, 0)
    num_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    return num_bytes


def with_serial(payload: bytes | BinaryIO, key: str) -> bytes | BinaryIO:
    """An Ogg stream of one sample with the serial number of the sample: the first 32 bits of its key's SHA-256.

    A payload that is a file is changed in place.
    """
    serial = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
    if isinstance(payload, bytes):
        file = io.BytesIO(payload)
        set_serial(file, serial)
        return file.getvalue()
    set_serial(payload, serial)
    payload.seek(0)
    return payload


def copy_file(file: BinaryIO) -> tuple[bytes | BinaryIO, int]:
    """Copy a file from its current position. Returns the payload and its size in bytes, as `write_stream` does."""
    before = file.tell()
    size = file.seek(0, os.SEEK_END) - before
    file.seek(before)
    if size <= _IN_MEMORY_BYTES:
        data = file.read()
        return data, len(data)
    copy = _disk_file()
    while chunk := file.read(_COPY_BYTES):
        copy.write(chunk)
    num_bytes = copy.tell()
    copy.seek(0)
    return copy, num_bytes


@functools.cache
def codec_version(codec: Codec = Codec.FLAC) -> str:
    """Versions of the libraries and of this project's code, on which the bytes of an encoded segment depend.

    The versions of libFLAC and libopus, which are built into libsndfile, are read from streams that they write.
    """
    opus_bitrate = OPUS_BITRATES[0] if codec is Codec.OPUS else None
    sample, _ = write_stream([np.zeros((1, 1), np.int16)], 1, StreamForm(48_000, 1, 16, 5, opus_bitrate))
    if codec is Codec.OPUS:
        after = cast("bytes", sample).split(_OPUS_VENDOR)[1]
        version = after[4 : 4 + int.from_bytes(after[:4], "little")].decode().replace(" ", "-")
    else:
        version = "libFLAC-" + cast("bytes", sample).split(_VENDOR)[1].split()[0].decode()
    return f"headrace-audio-{_OWN_VERSION} {sf.__libsndfile_version__} {version} {soxr.__libsoxr_version__}"


def _disk_file() -> BinaryIO:
    """An unnamed file in the temporary folder, which disappears with its last handle, even after a kill."""
    return cast("BinaryIO", tempfile.TemporaryFile(buffering=0))


def _encode(blocks: Iterable[Samples], num_frames: int, descriptor: int, form: StreamForm) -> None:
    written = 0
    try:
        with ForwardSound(
            descriptor,
            "w",
            samplerate=form.sample_rate_hz,
            channels=form.num_channels,
            closefd=False,
            **form.options,
        ) as sound:
            for block in blocks:
                _write(sound, block)
                written += len(block)
            # What is still to come is written behind this place. There may be older content.
            os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
    except _EncoderError as error:
        raise BuildError(
            f"{form.codec.value} could not be encoded ({error.__cause__}): is the temporary folder full?"
        ) from error
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
