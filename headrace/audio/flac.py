"""FLAC bytes to arrays, as fast as a bit-exact decoder allows (RFC 9639).

Owns the reading of STREAMINFO and the decoding of a stream in memory straight into a caller's buffer. The decoder is
dr_flac, called through miniaudio's compiled module: 0.6 of libsndfile's time (`benchmarks/codec.py`), equal to it bit
for bit, and it leaves the GIL alone while it works. Encoding and every other format live elsewhere.

Damage: dr_flac checks the CRC of each frame's header and of each frame, and drops a frame that fails either, so damage
shows as a count that falls short of what the header promises; that is an error here. The MD5 of the whole stream is
not checked: it would add half of the decoding time, and the CRCs have found every flipped bit that the tests tried.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from _miniaudio import ffi, lib  # type: ignore[import-not-found]  # compiled, without stubs

from headrace.audio.forms import Reject
from headrace.errors import AudioError

MAGIC = b"fLaC"
_STREAMINFO_STOP = 42  # magic, a block header, and the 34 bytes of STREAMINFO, which is always the first block
_MOST_FRAMES_IN_A_BLOCK = 65_535
_LEAST_BLOCK_BYTES = 10  # header 6, one constant subframe 2, checksum 2
_BLOCK_SAMPLES = 32_768  # decoded at a time where channels must be taken apart: stays in cache; more gains nothing

FlacBytes = bytes | bytearray | memoryview


class FlacInfo(NamedTuple):
    """STREAMINFO's facts. `num_frames` is 0 where the writer could not know it (a stream that was piped)."""

    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits_per_sample: int


def flac_info(data: FlacBytes) -> FlacInfo:
    """Read STREAMINFO (RFC 9639, section 8.2); the first 42 bytes of a stream are enough.

    Raises:
        AudioError: not a FLAC stream (`unsupported`), or cut off within its header (`truncated`).
    """
    head = bytes(data[:_STREAMINFO_STOP])
    if not head.startswith(MAGIC):
        raise AudioError(Reject.UNSUPPORTED, f"not a FLAC stream: begins with {head[:4]!r}, expected {MAGIC!r}")
    if len(head) < _STREAMINFO_STOP:
        raise AudioError(Reject.TRUNCATED, f"FLAC header cut off after {len(head)} bytes; fetch the file again")
    packed = int.from_bytes(head[18:26], "big")  # rate 20 bits, channels - 1 3 bits, bits - 1 5 bits, frames 36 bits
    return FlacInfo(packed & ((1 << 36) - 1), packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1)


def whole_flac_info(data: FlacBytes) -> FlacInfo:
    """STREAMINFO of a whole stream, its length found possible: a flipped bit there must not ask for gigabytes.

    Raises:
        AudioError: as `flac_info`; or `undecodable`, when so few bytes cannot hold the frames that are promised.
    """
    info = flac_info(data)
    most = _MOST_FRAMES_IN_A_BLOCK * (len(data) // _LEAST_BLOCK_BYTES)
    if info.num_frames > most:
        found = f"its header promises {info.num_frames} frames, {len(data)} bytes hold at most {most}"
        raise AudioError(Reject.UNDECODABLE, f"damaged FLAC: {found}; fetch or build it again")
    return info


def decode_flac_into(
    data: FlacBytes, out: npt.NDArray[np.float32], start_frame: int = 0, num_frames: int | None = None
) -> int:
    """Decode frames `start_frame` to `start_frame + num_frames` into the first columns of `out`.

    Mono goes straight into `out`; the channels of anything else are taken apart in cache-sized pieces. The GIL is
    released while decoding, so threads scale. What lies beyond the decoded frames in `out` is left alone.

    Args:
        data: a whole FLAC stream.
        out: float32 (channels, at least num_frames), any strides; filled with values in [-1, 1).
        start_frame: first frame wanted.
        num_frames: how many; None means up to the end.

    Returns:
        The number of frames written: `num_frames`, always.

    Raises:
        AudioError: the stream is damaged (`undecodable`) or cut off (`truncated`), as far as its checksums tell for
            the frames that were asked for; or its length is unknown and `num_frames` is None (`unsupported`).
        ValueError: `out` does not fit the stream or the frames asked for.
    """
    info = whole_flac_info(data)
    num_frames = _checked_count(info, out, start_frame, num_frames)
    if num_frames == 0:
        return 0
    # Let go at once: an error's traceback would keep the view, and collecting a memoryview in use crashes CPython.
    with ffi.from_buffer(data) as source:
        _decode(source, len(data), info, out[:, :num_frames], start_frame)
    return num_frames


def _decode(
    source: Any,  # noqa: ANN401 - a C pointer
    num_bytes: int,
    info: FlacInfo,
    out: npt.NDArray[np.float32],
    start_frame: int,
) -> None:
    """Fill `out` (channels, frames) from `start_frame` on."""
    decoder = lib.ma_dr_flac_open_memory(source, num_bytes, ffi.NULL)
    if decoder == ffi.NULL:
        raise AudioError(Reject.UNDECODABLE, "damaged FLAC: no frame can be found behind its header; fetch it again")
    try:
        if start_frame and not lib.ma_dr_flac_seek_to_pcm_frame(decoder, start_frame):
            raise _damage(decoder, info, f"frame {start_frame} cannot be reached")
        decoded = _read(decoder, out)
        if decoded < out.shape[1]:
            raise _damage(decoder, info, f"{decoded} of {out.shape[1]} frames decode")
    finally:
        lib.ma_dr_flac_close(decoder)


def _checked_count(info: FlacInfo, out: npt.NDArray[np.float32], start_frame: int, num_frames: int | None) -> int:
    """How many frames to decode, once it is certain that they exist and fit."""
    if num_frames is None:
        if not info.num_frames:
            raise AudioError(Reject.UNSUPPORTED, "FLAC of unknown length: say num_frames, or use headrace.audio.decode")
        num_frames = max(0, info.num_frames - start_frame)
    if start_frame < 0 or num_frames < 0 or (info.num_frames and start_frame + num_frames > info.num_frames):
        raise ValueError(f"frames {start_frame}:{start_frame + num_frames} asked of a stream of {info.num_frames}")
    if out.dtype != np.float32 or out.ndim != 2 or out.shape[0] != info.num_channels or out.shape[1] < num_frames:
        raise ValueError(
            f"out: expected float32 ({info.num_channels}, at least {num_frames}), found {out.dtype} {out.shape}"
        )
    return num_frames


def _read(decoder: Any, out: npt.NDArray[np.float32]) -> int:  # noqa: ANN401 - a C pointer
    """Fill `out` (channels, frames) from where the decoder stands. Returns how many frames came."""
    num_channels, num_frames = out.shape
    if num_channels == 1 and out.strides[1] == out.itemsize:
        target = ffi.from_buffer("float[]", out[0], require_writable=True)
        return int(lib.ma_dr_flac_read_pcm_frames_f32(decoder, num_frames, target))
    block = np.empty((min(num_frames, _BLOCK_SAMPLES // num_channels), num_channels), np.float32)
    target = ffi.from_buffer("float[]", block.reshape(-1), require_writable=True)
    done = 0
    while done < num_frames:
        got = int(lib.ma_dr_flac_read_pcm_frames_f32(decoder, min(len(block), num_frames - done), target))
        if got == 0:
            break
        for channel in range(num_channels):  # column by column: a fifth faster than one transposed assignment
            out[channel, done : done + got] = block[:got, channel]
        done += got
    return done


def _damage(decoder: Any, info: FlacInfo, found: str) -> AudioError:  # noqa: ANN401 - a C pointer
    """Which of the two: a stream whose last frame still decodes is damaged before it, otherwise its end is gone."""
    last = np.empty((info.num_channels, 1), np.float32)
    if info.num_frames and lib.ma_dr_flac_seek_to_pcm_frame(decoder, info.num_frames - 1) and _read(decoder, last) == 1:
        return AudioError(Reject.UNDECODABLE, f"damaged FLAC: {found}, a checksum fails; fetch or build it again")
    return AudioError(Reject.TRUNCATED, f"FLAC cut off or damaged at its end: {found}; fetch or build it again")
