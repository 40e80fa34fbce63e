"""Decodes a part of a long audio file without reading the rest of it.

The values are those of the same frames of a whole decode, bit for bit, for WAV, FLAC, MP3 and Vorbis (tests compare
them). Opus is decoded by seek points alone, from half a second before the part, or five seconds where the file has
packets of speech; the difference to a whole decode is below 2⁻²⁰ of full scale, and the same part always has the same
values. Files of which that is not known are left to a whole decode: those that libsndfile reads only in parts
(`headrace.audio.opening`), other codecs and containers, and damaged ones.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.audio.flac_frames import decode_frames, decode_frames_at, flac_points, flac_spans, part_info
from headrace.audio.member_file import MemberFile
from headrace.audio.mpeg_frames import decode_mpeg, decode_mpeg_at, mpeg_points, mpeg_spans
from headrace.audio.ogg import MAGIC as OGG
from headrace.audio.ogg_frames import decode_ogg, decode_ogg_at, ogg_points, ogg_spans
from headrace.audio.seek_points import Coding, SeekPoints
from headrace.audio.tags import id3_bytes, is_mpeg
from headrace.audio.wav_frames import read_wav, wav_layout
from headrace.errors import AudioError


class PartFacts(NamedTuple):
    """Facts of an audio file that are known before it is opened: frames, Hz and channels."""

    num_frames: int
    sample_rate_hz: int
    num_channels: int


def decode_part(
    file: MemberFile,
    facts: PartFacts,
    out: npt.NDArray[np.float32],
    start_frame: int,
    points: SeekPoints | None = None,
) -> bool:
    """Decode a part of an audio file, frames from `start_frame` on.

    Args:
        file: the file.
        facts: what is known of it, from counting its frames; a file whose header says anything else is not decoded.
        out: float32 (channels, frames), any strides; it is filled, with frames that the file has.
        start_frame: the first frame.
        points: what `seek_points` found in the file; None searches.

    Returns:
        False if the file has to be decoded whole, or is damaged; then `out` may hold anything.
    """
    try:
        if points is not None and _decoded_at(file, facts, points, out, start_frame):
            return True
        if (flac := part_info(file)) is not None:
            return flac[:3] == facts and decode_frames(file, flac, out, start_frame)
        if (wav := wav_layout(file)) is not None:
            return wav[1:4] == facts and read_wav(file, wav, out, start_frame)
        head = bytes(file.part(0, 10))
        if id3_bytes(head) or is_mpeg(head):
            return decode_mpeg(file, facts[:2], out, start_frame)
        return decode_ogg(file, facts, out, start_frame)
    except AudioError:
        return False


def seek_points(file: MemberFile, facts: PartFacts) -> SeekPoints | None:
    """Places from which a long file can be decoded, found by reading all of it.

    None for files that need none (WAV), and for those that `decode_part` leaves to a whole decode.
    """
    try:
        head = bytes(file.part(0, 10))
        if (flac := part_info(file)) is not None:
            return flac_points(file, flac) if flac[:3] == facts else None
        if id3_bytes(head) or is_mpeg(head):
            return mpeg_points(file, facts.num_frames)
        return ogg_points(file, *facts[:2]) if head.startswith(OGG) and facts.num_channels <= 2 else None
    except AudioError:
        return None


def part_spans(points: SeekPoints, facts: PartFacts, stretch: tuple[int, int], num_bytes: int) -> list[tuple[int, int]]:
    """Bytes that `decode_part` probably reads by seek points, so that they can be fetched before.

    Args:
        points: of the file.
        facts: see `decode_part`.
        stretch: the first frame, and one past the last.
        num_bytes: size of the file.
    """
    if points.coding == Coding.FLAC:
        return flac_spans(points, stretch, num_bytes)
    if points.coding == Coding.MPEG:
        return mpeg_spans(points, stretch, num_bytes)
    return ogg_spans(points, facts.sample_rate_hz, stretch, num_bytes)


def _decoded_at(
    file: MemberFile, facts: PartFacts, points: SeekPoints, out: npt.NDArray[np.float32], start_frame: int
) -> bool:
    """Whether a part could be decoded from the places of an index."""
    if points.frame(points.at(start_frame)) > start_frame:
        return False
    if points.coding == Coding.FLAC:
        return decode_frames_at(file, facts, points, out, start_frame)
    if points.coding == Coding.MPEG:
        return decode_mpeg_at(file, facts[1:], points, out, start_frame)
    return decode_ogg_at(file, facts, points, out, start_frame)
