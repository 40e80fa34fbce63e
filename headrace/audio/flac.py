"""Decodes a FLAC stream in memory, or a part of it, into a given array, and reads its STREAMINFO (RFC 9639).

The decoder is dr_flac (`headrace.audio.dr_flac`). It checks the CRC of each frame and of each frame's header, and drops
a frame that fails. Damage therefore shows as fewer frames than the header promises, which is an error here. In a part
it does not show: the frames that follow take the place of the one that was dropped. So a part is decoded here only of
bytes that were compared with a checksum, and otherwise by `headrace.audio.flac_frames.decode_flac_part`.

The MD5 of the whole stream is not checked when shards are read: that would add half of the decoding time, and the CRCs
found every flipped bit that the tests tried. `headrace.audio.flac_sound` checks the MD5 of recordings.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.audio.dr_flac import FlacDecoder, open_memory
from headrace.audio.forms import AudioReject
from headrace.errors import AudioError

MAGIC = b"fLaC"
STREAMINFO_STOP = 42  # magic, a block header, and the 34 bytes of STREAMINFO, which is always the first block
_MOST_FRAMES_IN_A_BLOCK = 65_535
_LEAST_BLOCK_BYTES = 10  # header 6, one constant subframe 2, checksum 2
_BLOCK_SAMPLES = 32_768  # decoded at a time to separate channels: fits the cache; more is not faster

FlacBytes = bytes | bytearray | memoryview


class FlacInfo(NamedTuple):
    """Facts of STREAMINFO. `num_frames` is 0 if the writer did not know it, for example when writing to a pipe."""

    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits_per_sample: int


def flac_info(data: FlacBytes) -> FlacInfo:
    """Read STREAMINFO (RFC 9639, section 8.2); the first 42 bytes of a stream are enough.

    Raises:
        AudioError: `data` is not a FLAC stream (`unsupported`), or ends within the header (`truncated`).
    """
    head = bytes(data[:STREAMINFO_STOP])
    if not head.startswith(MAGIC):
        raise AudioError(AudioReject.UNSUPPORTED, f"not a FLAC stream: begins with {head[:4]!r}, expected {MAGIC!r}")
    if len(head) < STREAMINFO_STOP:
        raise AudioError(AudioReject.TRUNCATED, f"FLAC header truncated after {len(head)} bytes; fetch the file again")
    packed = int.from_bytes(head[18:26], "big")  # rate 20 bits, channels - 1 3 bits, bits - 1 5 bits, frames 36 bits
    return FlacInfo(packed & ((1 << 36) - 1), packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1)


def whole_flac_info(data: FlacBytes) -> FlacInfo:
    """Read STREAMINFO of a whole stream, and check that its length is possible.

    Without the check, a flipped bit in the header could make the caller allocate gigabytes.

    Raises:
        AudioError: see `flac_info`; or `undecodable`, if `data` is too short for the promised number of frames.
    """
    info = flac_info(data)
    most = _MOST_FRAMES_IN_A_BLOCK * (len(data) // _LEAST_BLOCK_BYTES)
    if info.num_frames > most:
        found = f"its header promises {info.num_frames} frames, {len(data)} bytes hold at most {most}"
        raise AudioError(AudioReject.UNDECODABLE, f"damaged FLAC: {found}; fetch or build it again")
    return info


def known_flac(data: FlacBytes) -> FlacInfo | None:
    """STREAMINFO of a FLAC stream that states its length, which `decode_flac_into` decodes; None for other files.

    Raises:
        AudioError: see `whole_flac_info`.
    """
    if bytes(data[:4]) != MAGIC:
        return None
    info = whole_flac_info(data)
    return info if info.num_frames else None


def decode_flac_into(
    data: FlacBytes, out: npt.NDArray[np.float32], start_frame: int = 0, num_frames: int | None = None
) -> int:
    """Decode frames `start_frame` to `start_frame + num_frames` into the first columns of `out`.

    Mono is decoded directly into `out`; several channels are separated in blocks that fit the cache. The GIL is
    released while decoding, so the speed scales with threads. The other columns of `out` are not changed.

    Args:
        data: a whole FLAC stream. Where a part is decoded, its bytes have to be sound: damage may give other frames.
        out: float32 (channels, at least num_frames), any strides; filled with values in [-1, 1).
        start_frame: first frame to decode.
        num_frames: number of frames to decode; None for all frames up to the end.

    Returns:
        The number of frames written.

    Raises:
        AudioError: the decoded part of the stream is damaged (`undecodable`) or truncated (`truncated`), as far as
            checksums show it; audio follows after the last frame of the header (`undecodable`); or the stream's length
            is unknown and `num_frames` is None (`unsupported`).
        ValueError: `out` has the wrong shape or dtype, or the frames are outside of the stream.
    """
    info = whole_flac_info(data)
    num_frames = checked_count(info, out, start_frame, num_frames)
    if num_frames == 0:
        return 0
    decoder = open_memory(data)
    if decoder is None:
        raise AudioError(
            AudioReject.UNDECODABLE, "damaged FLAC: no frame can be found after its header; fetch it again"
        )
    with decoder:
        _decode(decoder, info, out[:, :num_frames], start_frame)
    return num_frames


def _decode(decoder: FlacDecoder, info: FlacInfo, out: npt.NDArray[np.float32], start_frame: int) -> None:
    """Fill `out` (channels, frames) from `start_frame` on."""
    if start_frame and not decoder.seek(start_frame):
        raise flac_damage(decoder, info, f"frame {start_frame} cannot be reached")
    decoded = read_frames(decoder, out)
    if decoded < out.shape[1]:
        raise flac_damage(decoder, info, f"{decoded} of {out.shape[1]} frames were decoded")
    if start_frame + decoded == info.num_frames and read_frames(decoder, np.empty((info.num_channels, 1), np.float32)):
        raise too_long(info.num_frames)


def checked_count(info: FlacInfo, out: npt.NDArray[np.float32], start_frame: int, num_frames: int | None) -> int:
    """The number of frames to decode, after a check that they exist and fit into `out`."""
    if num_frames is None:
        if not info.num_frames:
            raise AudioError(
                AudioReject.UNSUPPORTED, "FLAC of unknown length: pass num_frames, or use headrace.audio.decode"
            )
        num_frames = max(0, info.num_frames - start_frame)
    if start_frame < 0 or num_frames < 0 or (info.num_frames and start_frame + num_frames > info.num_frames):
        raise ValueError(
            f"frames {start_frame}:{start_frame + num_frames} are outside of the stream of {info.num_frames} frames"
        )
    if out.dtype != np.float32 or out.ndim != 2 or out.shape[0] != info.num_channels or out.shape[1] < num_frames:
        raise ValueError(
            f"out: expected float32 ({info.num_channels}, at least {num_frames}), found {out.dtype} {out.shape}"
        )
    return num_frames


def read_frames(decoder: FlacDecoder, out: npt.NDArray[np.float32]) -> int:
    """Fill `out` (channels, frames) from the decoder's position. Returns the number of decoded frames."""
    num_channels, num_frames = out.shape
    if num_channels == 1 and out.strides[1] == out.itemsize:
        return decoder.read(num_frames, out[0])
    block = np.empty((min(num_frames, _BLOCK_SAMPLES // num_channels), num_channels), np.float32)
    interleaved = block.reshape(-1)
    done = 0
    while done < num_frames:
        got = decoder.read(min(len(block), num_frames - done), interleaved)
        if got == 0:
            break
        for channel in range(num_channels):  # column by column: a fifth faster than one transposed assignment
            out[channel, done : done + got] = block[:got, channel]
        done += got
    return done


def too_long(num_frames: int) -> AudioError:
    """The error for a stream that goes on behind the frames that its header promises."""
    return AudioError(
        AudioReject.UNDECODABLE,
        f"damaged FLAC: more audio than the {num_frames} frames that its header promises; fetch it again, or, if the "
        "rest is to be used, encode it again (flac -f)",
    )


def flac_damage(decoder: FlacDecoder, info: FlacInfo, found: str) -> AudioError:
    """The error for a stream that ends early: damaged if its last frame can be decoded, otherwise truncated."""
    last = np.empty((info.num_channels, 1), np.float32)
    if info.num_frames and decoder.seek(info.num_frames - 1) and read_frames(decoder, last) == 1:
        return AudioError(AudioReject.UNDECODABLE, f"damaged FLAC: {found}, a checksum fails; fetch or build it again")
    return AudioError(AudioReject.TRUNCATED, f"FLAC truncated, or damaged at its end: {found}; fetch or build it again")
