"""Reads the facts of a recording from its header, and checks that the file is complete, without decoding it."""

from dataclasses import replace
from typing import BinaryIO

from headrace.audio.flac_sound import check_first_frame
from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.headers import check_closed, check_whole
from headrace.audio.libav_sound import libav_version
from headrace.audio.opening import Sound, open_sound
from headrace.audio.sound import UNKNOWN_FRAMES, position_kept
from headrace.audio.tags import behind_tag, tag_bytes
from headrace.audio.writer import codec_version
from headrace.errors import AudioError

_BLOCK_SAMPLES = 1 << 18
_FLAC = "FLAC"


def probe_version() -> str:
    """Versions of everything that the results of `probe` depend on; another one if the extra `av` is installed."""
    return codec_version() + libav_version()


def probe(file: BinaryIO, *, num_bytes: int) -> AudioInfo:
    """Read a recording's header.

    The format is found from the content, not from a file name. A stream whose header has no length (FLAC from a pipe)
    is decoded once to count its frames. All pages of Ogg and all frames of MPEG audio are counted and checked, without
    decoding them.

    Args:
        file: the recording; its position is restored.
        num_bytes: size of the file.

    Raises:
        AudioError: with one of `AudioReject` as its reason: `empty`; `truncated` (truncated FLAC is found only by
            decoding); `unsupported`; `undecodable`; `no_frames`.
    """
    if num_bytes == 0:
        raise AudioError(AudioReject.EMPTY, "the file is empty (0 bytes); fetch it again or remove it")
    with position_kept(file):
        num_bytes -= tag_bytes(file)
        return _probed(behind_tag(file), num_bytes)


def _probed(file: BinaryIO, num_bytes: int) -> AudioInfo:
    check_whole(file, num_bytes)
    with open_sound(file) as sound:
        info = sound.info
        if info.num_frames >= UNKNOWN_FRAMES:
            info = replace(info, num_frames=_count_frames(sound))
    if info.container == _FLAC:
        check_first_frame(file)
    if info.num_frames <= 0:
        check_closed(file, num_bytes)
        raise AudioError(
            AudioReject.NO_FRAMES, f"the {info.container} header announces no audio; remove or mend the file"
        )
    return info


def _count_frames(sound: Sound) -> int:
    num_frames = max(1, _BLOCK_SAMPLES // sound.info.num_channels)
    total = 0
    while (got := len(sound.read(num_frames, "int32"))) > 0:
        total += got
    return total
