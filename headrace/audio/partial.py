"""Decodes a part of a long audio file without reading the rest of it.

The values are those of the same frames of a whole decode, bit for bit, for WAV, FLAC, MP3 and Vorbis (tests compare
them). Opus is decoded from a quarter of a second before the part; the difference to a whole decode is below 2⁻²⁰ of
full scale, and the same part always has the same values. Files of which that is not known are left to a whole decode:
those that libsndfile reads only in parts (`headrace.audio.opening`), other codecs and containers, and damaged ones.
"""

import re
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from headrace.audio.flac_frames import decode_frames, part_info
from headrace.audio.forms import AudioInfo
from headrace.audio.member_file import MemberFile
from headrace.audio.mpeg_frames import decode_mpeg
from headrace.audio.opening import whole_sound
from headrace.audio.reader import FrameReader
from headrace.audio.sound import info_of, open_plain
from headrace.audio.tags import id3_bytes, is_mpeg
from headrace.audio.wav_frames import read_wav, wav_layout
from headrace.errors import AudioError

_BLOCK_FRAMES = 1 << 18
_PAGE = re.compile(rb"OggS\0.", re.DOTALL)  # then the number of its last frame, 8 bytes
_USUAL_PAGES_BYTES = 20_000
_MOST_PAGE_BYTES = 65_307
_PRE_ROLL = {"VORBIS": 1 << 14, "OPUS": 12_000}
"""Frames that are decoded before the part, by coding."""


class PartFacts(NamedTuple):
    """Facts of an audio file that are known before it is opened: frames, Hz and channels."""

    num_frames: int
    sample_rate_hz: int
    num_channels: int


def decode_part(file: MemberFile, facts: PartFacts, out: npt.NDArray[np.float32], start_frame: int) -> bool:
    """Decode a part of an audio file, frames from `start_frame` on.

    Args:
        file: the file.
        facts: what is known of it, from counting its frames; a file whose header says anything else is not decoded.
        out: float32 (channels, frames), any strides; it is filled, with frames that the file has.
        start_frame: the first frame.

    Returns:
        False if the file has to be decoded whole, or is damaged; then `out` may hold anything.
    """
    try:
        if (flac := part_info(file)) is not None:
            return flac[:3] == facts and decode_frames(file, flac, out, start_frame)
        if (wav := wav_layout(file)) is not None:
            return wav[1:4] == facts and read_wav(file, wav, out, start_frame)
        head = bytes(file.part(0, 10))
        if id3_bytes(head) or is_mpeg(head):
            return decode_mpeg(file, facts[:2], out, start_frame)
        return _decode_ogg(file, facts, out, start_frame)
    except AudioError:
        return False


def _decode_ogg(file: MemberFile, facts: PartFacts, out: npt.NDArray[np.float32], start_frame: int) -> bool:
    with open_plain(cast("BinaryIO", file)) as sound:
        info = info_of(sound)
        before = _pre_roll(info)
        if before is None or facts != (info.num_frames, info.sample_rate_hz, info.num_channels):
            return False
        first = max(0, min(start_frame - before, _last_page_begin(file) - before))
        if first:
            sound.seek(first)
        reader = FrameReader(
            whole_sound(sound, info), info, dtype="float32", block_frames=_BLOCK_FRAMES, position=first
        )
        done = -(start_frame - first)
        for block in reader.blocks(first, start_frame + out.shape[1]):
            skipped = max(0, -done)
            if len(block) > skipped:
                out[:, done + skipped : done + len(block)] = block[skipped:].T
            done += len(block)
    return True


def _last_page_begin(file: MemberFile) -> int:
    """Frames before the last page of an Ogg file: libsndfile cannot seek into that page exactly. 0 if unknown."""
    for num_bytes in (_USUAL_PAGES_BYTES, 2 * _MOST_PAGE_BYTES):
        tail = bytes(file.part(max(0, file.num_bytes - num_bytes), file.num_bytes))
        ends = [
            int.from_bytes(tail[page.end() : page.end() + 8], "little", signed=True) for page in _PAGE.finditer(tail)
        ]
        if (found := max(ends[:-1], default=0)) > 0:
            return found
    return 0


def _pre_roll(info: AudioInfo) -> int | None:
    """Frames to decode before a part; None for a file that has to be decoded whole."""
    return _PRE_ROLL.get(info.subtype) if info.container == "OGG" and info.num_channels <= 2 else None
