"""Decodes a whole FLAC recording and checks it against its header: MD5, number of frames, form of the first frame.

The decoder is dr_flac (`headrace.audio.dr_flac`); with the MD5 it takes as long as libsndfile without it
(`benchmarks/codec.py`). Parts of a recording, and Ogg FLAC, are read by `headrace.audio.opening`.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from headrace.audio.dr_flac import FlacDecoder, open_file
from headrace.audio.flac import MAGIC, FlacInfo, flac_damage, flac_info, too_long
from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.levels import Samples
from headrace.audio.parts import FilePart, part_file
from headrace.audio.sound import plain_descriptor, position_kept
from headrace.errors import AudioError, BuildError

_STREAMINFO_BYTES = 42  # with the stream's magic and the block's header
_MD5_AT = 26
MOST_FRAME_HEADER_BYTES = 16
_NO_MD5 = bytes(16)
_RATES_HZ = (0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)
_BITS = (0, 8, 12, 0, 16, 20, 24, 32)


class FlacSound:
    """An open FLAC recording that is read from beginning to end; an `opening.Sound`. Made by `open_flac`."""

    def __init__(self, decoder: FlacDecoder, stream: FlacInfo, info: AudioInfo, md5: bytes) -> None:
        """Take an open decoder. `md5` is that of the header, or `_NO_MD5` if its writer computed none."""
        self.info = info
        self._decoder = decoder
        self._stream = stream
        self._promised_md5 = md5
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._position = 0

    def read(self, num_frames: int, dtype: str) -> Samples:
        """The next frames, (frames, channels), with the values that libsndfile gives for this dtype.

        Raises:
            AudioError: `undecodable` or `truncated`; the MD5 is checked when the last frame is read.
        """
        wanted = min(num_frames, self.info.num_frames - self._position)
        block = self._decoded(wanted)
        self._position += len(block)
        if len(block) < wanted:
            found = f"{self._position} of {self.info.num_frames} frames were decoded"
            raise flac_damage(self._decoder, self._stream, found)
        if self._promised_md5 != _NO_MD5:
            self._md5.update(_md5_input(block, self._stream.bits_per_sample).data)
        if self._position == self.info.num_frames:
            self._check_end()
        return _converted(block, dtype)

    def seek(self, frame: int) -> None:
        """Not supported, because the check needs all frames."""
        raise NotImplementedError(f"seek to frame {frame} of a FLAC recording that is read from beginning to end")

    def _decoded(self, num_frames: int) -> Samples:
        """The next frames as int16, or, for more than 16 bits, as int32 with the value in the upper bits."""
        is_wide = self._stream.bits_per_sample > 16
        block = np.empty((num_frames, self._stream.num_channels), np.int32 if is_wide else np.int16)
        return block[: self._decoder.read(num_frames, block.reshape(-1))] if num_frames else block

    def _check_end(self) -> None:
        if len(self._decoded(1)):
            raise too_long(self.info.num_frames)
        if self._promised_md5 not in {_NO_MD5, self._md5.digest()}:
            raise AudioError(
                AudioReject.UNDECODABLE,
                f"damaged FLAC: the decoded audio has the MD5 {self._md5.hexdigest()}, its header promises "
                f"{self._promised_md5.hex()}; fetch it again, or, if it sounds right, encode it again (flac -f)",
            )


@contextlib.contextmanager
def open_flac(file: BinaryIO, info: AudioInfo) -> Iterator[FlacSound]:
    """Open a FLAC recording, to be read from beginning to end. The file's position is restored at the end.

    Args:
        file: the recording.
        info: result of `probe`; the container must be FLAC.

    Raises:
        AudioError: `undecodable` or `truncated`.
        BuildError: the system has no `/dev/fd`.
    """
    with position_kept(file), contextlib.ExitStack() as stack:
        file.seek(0)
        head = file.read(_STREAMINFO_BYTES)
        descriptor = plain_descriptor(file)
        if descriptor is None:
            copy = stack.enter_context(part_file(file, FilePart(((0, file.seek(0, os.SEEK_END)),))))
            descriptor = copy.fileno()
        stack.callback(os.lseek, descriptor, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        decoder = stack.enter_context(_opened(descriptor))
        yield FlacSound(decoder, flac_info(head), info, head[_MD5_AT:])


def check_first_frame(file: BinaryIO) -> None:
    """Check that a FLAC file's header and the header of its first frame have the same rate, channels and bits.

    The first frame's header has a checksum. A file without a valid first frame passes; decoding it fails later.

    Args:
        file: a FLAC file; its position is moved.

    Raises:
        AudioError: `undecodable`, if rate, channels or bits differ.
    """
    file.seek(0)
    promised = flac_info(file.read(_STREAMINFO_BYTES))
    at = len(MAGIC)
    is_last = False
    while not is_last:
        file.seek(at)
        block = file.read(4)
        if len(block) < 4:
            return
        is_last = bool(block[0] & 0x80)
        at += 4 + int.from_bytes(block[1:], "big")
    file.seek(at)
    found = frame_form(file.read(MOST_FRAME_HEADER_BYTES))
    names = ("Hz", "channels", "bits")
    for name, in_header, in_frame in zip(names, promised[1:], found or (), strict=False):
        if in_frame and in_frame != in_header:
            raise AudioError(
                AudioReject.UNDECODABLE,
                f"damaged FLAC: its header promises {in_header} {name}, its first frame has {in_frame}; fetch it again",
            )


def _opened(descriptor: int) -> FlacDecoder:
    """A decoder on an open file. The C code opens the file again by its descriptor."""
    path = f"/dev/fd/{descriptor}"
    if not os.path.exists(path):  # noqa: PTH110 - called per recording
        raise BuildError(
            f"{path} does not exist: mount /dev/fd (on Linux: /proc), which is needed to decode open files"
        )
    os.lseek(descriptor, 0, os.SEEK_SET)  # for systems on which opening /dev/fd shares the position
    decoder = open_file(path)
    if decoder is None:
        raise AudioError(
            AudioReject.UNDECODABLE, "damaged FLAC: no frame can be found after its header; fetch it again"
        )
    return decoder


def frame_form(header: bytes) -> tuple[int, int, int] | None:
    """Rate in Hz, channels and bits of a frame (RFC 9639, section 9.1); 0 for a value that only STREAMINFO has.

    None if `header` is not a frame's header with a valid checksum.
    """
    if len(header) < MOST_FRAME_HEADER_BYTES or header[0] != 0xFF or header[1] & 0xFE != 0xF8:
        return None
    rate_code, channels_code, bits_code = header[2] & 15, header[3] >> 4, header[3] >> 1 & 7
    at = 4 + max(1, 8 - (~header[4] & 0xFF).bit_length())  # after the frame's number, which is coded like UTF-8
    at += {6: 1, 7: 2}.get(header[2] >> 4, 0)
    rate_bytes = {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if at + rate_bytes >= len(header) or channels_code > 10 or _crc8(header[: at + rate_bytes + 1]):
        return None
    rate_hz = int.from_bytes(header[at : at + rate_bytes], "big") * {12: 1000, 14: 10}.get(rate_code, 1)
    rate_hz = rate_hz if rate_bytes else dict(enumerate(_RATES_HZ)).get(rate_code, 0)
    return rate_hz, 2 if channels_code > 7 else channels_code + 1, _BITS[bits_code]


def _crc8(data: bytes) -> int:
    """CRC-8 of a frame's header (polynomial 0x07); 0 if `data` ends with its checksum."""
    register = 0
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register << 1 ^ 0x107 if register & 0x80 else register << 1) & 0xFF
    return register


def _md5_input(block: Samples, bits: int) -> Samples:
    """Samples in the form that FLAC's MD5 is computed of: signed, little-endian, in the fewest whole bytes."""
    if bits == 16:
        return block
    values = block >> (block.itemsize * 8 - bits)
    num_bytes = -(-bits // 8)
    return np.ascontiguousarray(values.view(np.uint8).reshape(*values.shape, values.itemsize)[:, :, :num_bytes])


def _converted(block: Samples, dtype: str) -> Samples:
    """Full-scale integers converted to another dtype: integers in the upper bits, or floats in [-1, 1)."""
    if block.dtype == dtype:
        return block
    if dtype == "int32":
        return np.left_shift(block.astype(np.int32), 16)
    scale = np.dtype(dtype).type(2.0 ** (1 - block.itemsize * 8))
    scaled: Samples = block.astype(dtype)
    scaled *= scale
    return scaled
