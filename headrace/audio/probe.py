"""What a recording is, from its header alone.

Owns `probe`. It decodes nothing, unless a header leaves the length open.
"""

from dataclasses import replace
from typing import BinaryIO

import numpy as np

from headrace.audio.forms import AudioInfo, Reject
from headrace.audio.headers import check_whole
from headrace.audio.sound import UNKNOWN_FRAMES, ForwardSound, info_of, open_sound
from headrace.errors import AudioError

_BLOCK_SAMPLES = 1 << 18


def probe(file: BinaryIO, *, num_bytes: int) -> AudioInfo:
    """Read a recording's header. Content decides the format, not the file's name; the file's position is kept.

    A stream whose header leaves its length open (FLAC from a pipe) is decoded once, to count.

    Raises:
        AudioError: with one of `Reject` as its reason: `empty`; `truncated` where the container says how long it
            should be (WAV and kin, AIFF, AU, CAF, Ogg, MP3 with a Xing frame; FLAC shows it only when decoded);
            `unsupported`; `undecodable`; `no_frames`.
    """
    if num_bytes == 0:
        raise AudioError(Reject.EMPTY, "the file is empty (0 bytes); fetch it again or remove it")
    before = file.tell()
    try:
        check_whole(file, num_bytes)
    finally:
        file.seek(before)
    with open_sound(file) as sound:
        info = info_of(sound)
        if info.num_frames >= UNKNOWN_FRAMES:
            info = replace(info, num_frames=_count_frames(sound))
    if info.num_frames <= 0:
        raise AudioError(Reject.NO_FRAMES, f"the {info.container} header announces no audio; remove or mend the file")
    return info


def _count_frames(sound: ForwardSound) -> int:
    block = np.empty((max(1, _BLOCK_SAMPLES // sound.channels), sound.channels), np.int32)
    total = 0
    while (got := len(sound.read(out=block))) > 0:
        total += got
    return total
