"""Reads samples of a WAV file by arithmetic: where they are follows from the header.

WAV of 16, 24 and 32 bits and of 32-bit floats is read, the values being those of libsndfile; nothing else is.
"""

import struct
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from headrace.audio.headers import Layout, chunks
from headrace.audio.member_file import MemberFile

_RIFF = Layout(12, "<4sI", 2)
_FORMAT = struct.Struct("<HHIIHH")  # coding, channels, Hz, bytes in a second, bytes of a frame, bits
_CODING_AT = 24
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_TYPES = {(_PCM, 16): "<i2", (_PCM, 24): "u1", (_PCM, 32): "<i4", (_FLOAT, 32): "<f4"}


class WavLayout(NamedTuple):
    """Place and form of the samples in a WAV file.

    Attributes:
        begin: first byte of the first frame.
        num_frames: frames.
        sample_rate_hz: Hz.
        num_channels: channels.
        bits: bits of a sample.
        dtype: numpy's name of the type of a sample; of 24 bits, that of its bytes.
    """

    begin: int
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits: int
    dtype: str


def wav_layout(file: MemberFile) -> WavLayout | None:
    """The layout of a file; None for one that is not read here, or that ends before its samples do."""
    head = bytes(file.part(0, 12))
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    form = b""
    for name, start, size in chunks(cast("BinaryIO", file), file.num_bytes, _RIFF):
        if name == b"fmt ":
            form = bytes(file.part(start, start + min(size, _CODING_AT + 2)))
        if name == b"data":
            return _layout(form, start, size) if start + size <= file.num_bytes else None
    return None


def read_wav(file: MemberFile, layout: WavLayout, out: npt.NDArray[np.float32], start_frame: int) -> bool:
    """Read frames from `start_frame` on into `out` (channels, frames). Returns whether all values are finite."""
    num_frames = out.shape[1]
    size = layout.num_channels * layout.bits // 8
    begin = layout.begin + start_frame * size
    blob = file.part(begin, begin + num_frames * size)
    samples = np.frombuffer(blob, layout.dtype)
    if layout.bits == 24:
        wide = np.zeros((len(samples) // 3, 4), np.uint8)
        wide[:, 1:] = samples.reshape(-1, 3)
        samples = wide.view("<i4").reshape(-1)
    scale = 1.0 if layout.dtype == "<f4" else 2.0 ** (1 - 8 * samples.itemsize)
    frames = samples.reshape(num_frames, layout.num_channels)
    for channel in range(layout.num_channels):
        np.multiply(frames[:, channel], np.float32(scale), out=out[channel], casting="unsafe", dtype=np.float32)
    return layout.dtype != "<f4" or bool(np.isfinite(out).all())


def _layout(form: bytes, begin: int, size: int) -> WavLayout | None:
    if len(form) < _FORMAT.size:
        return None
    coding, channels, rate_hz, _, frame_bytes, bits = _FORMAT.unpack_from(form)
    if coding == _EXTENSIBLE and len(form) >= _CODING_AT + 2:
        coding = int.from_bytes(form[_CODING_AT : _CODING_AT + 2], "little")
    dtype = _TYPES.get((coding, bits))
    if dtype is None or not channels or frame_bytes != channels * bits // 8:
        return None
    return WavLayout(begin, size // frame_bytes, rate_hz, channels, bits, dtype)
