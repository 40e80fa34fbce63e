"""Decodes a whole audio file in memory to float32.

Plain FLAC is decoded by `headrace.audio.flac`. Other formats, and FLAC of unknown length, are decoded by libsndfile.
"""

import io
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from headrace.audio.flac import MAGIC, FlacBytes, decode_flac_into, whole_flac_info
from headrace.audio.opening import open_sound
from headrace.audio.probe import probe
from headrace.audio.reader import FrameReader

_BLOCK_FRAMES = 1 << 18


def decode(data: FlacBytes) -> tuple[npt.NDArray[np.float32], int]:
    """Decode a whole audio file of any format that libsndfile opens.

    Returns:
        Samples, float32 (channels, frames), C-contiguous; and the sample rate in Hz. Full scale is 1.0: integers
        become values in [-1, 1), floats keep their values.

    Raises:
        AudioError: see `probe`; or the audio is damaged, truncated, or not finite.
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
