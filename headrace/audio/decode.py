"""Any audio in memory to float32, for readers.

Owns the choice of decoder. Plain FLAC goes through `flac`; everything else, and FLAC whose length is unknown, through
libsndfile.
"""

import io
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from headrace.audio.flac import MAGIC, FlacBytes, decode_flac_into, whole_flac_info
from headrace.audio.probe import probe
from headrace.audio.reader import FrameReader
from headrace.audio.sound import open_sound

_BLOCK_FRAMES = 1 << 18


def decode(data: FlacBytes) -> tuple[npt.NDArray[np.float32], int]:
    """Decode a whole audio file of any format that libsndfile opens.

    Returns:
        float32 (channels, frames), C-contiguous, full scale at 1.0 (integers lie in [-1, 1), floats where they lay);
        and the sample rate in Hz.

    Raises:
        AudioError: as `probe` does; or damaged, cut off, or not finite.
    """
    if bytes(data[:4]) == MAGIC and (info := whole_flac_info(data)).num_frames:
        samples = np.empty((info.num_channels, info.num_frames), np.float32)
        decode_flac_into(data, samples)
        return samples, info.sample_rate_hz
    file: BinaryIO = io.BytesIO(data)
    about = probe(file, num_bytes=len(data))
    samples = np.empty((about.num_channels, about.num_frames), np.float32)
    with open_sound(file) as sound:
        done = 0
        reader = FrameReader(sound, about, dtype="float32", block_frames=_BLOCK_FRAMES)
        for block in reader.blocks(0, about.num_frames):
            samples[:, done : done + len(block)] = block.T
            done += len(block)
    return samples, about.sample_rate_hz
