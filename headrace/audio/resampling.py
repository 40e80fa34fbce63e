"""Resamples a segment from blocks of its source window, with soxr.

soxr keeps the ratio of common sample rates exactly. A ratio such as 44,100 to 44,099 is approximated: the result drifts
by some hundred-thousandths of a frame per minute: far less than one step of 16 bits, and a hundred steps of 24.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import soxr

from headrace.audio.levels import Samples
from headrace.audio.segments import SourceWindow


def dtype_for(bits: Literal[16, 24]) -> str:
    """Dtype for resampling: float32 for 16 bits (quality HQ, exact to 20 bits), float64 for 24 bits (VHQ)."""
    return "float32" if bits == 16 else "float64"


def resampled(
    blocks: Iterable[Samples], window: SourceWindow, num_frames: int, rates_hz: tuple[int, int], bits: Literal[16, 24]
) -> Iterator[Samples]:
    """The output frames of a segment, from the blocks of its window.

    Args:
        blocks: float (frames, channels), the part of the window that is in the recording. The rest of the window is
            silence.
        window: source frames of the blocks, and the number of output frames before the segment.
        num_frames: length of the segment at the output rate.
        rates_hz: source rate and output rate.
        bits: bits per sample in the shard; they decide the quality.

    Yields:
        Blocks in order, `num_frames` frames in total.
    """
    stream: soxr.ResampleStream | None = None
    skip, left, remaining = window.skip_frames, num_frames, window.stop_frame - window.start_frame
    for block in _padded(blocks, remaining):
        if stream is None:
            quality = "HQ" if bits == 16 else "VHQ"
            stream = soxr.ResampleStream(*rates_hz, block.shape[1], dtype=dtype_for(bits), quality=quality)
        remaining -= len(block)
        output = stream.resample_chunk(np.ascontiguousarray(block, dtype_for(bits)), last=remaining == 0)
        kept = output[skip : skip + left]
        skip = max(0, skip - len(output))
        left -= len(kept)
        if len(kept):
            yield kept
        if left == 0:
            return


def _padded(blocks: Iterable[Samples], num_frames: int) -> Iterator[Samples]:
    """The blocks, then silence up to `num_frames`."""
    last: Samples | None = None
    for last in blocks:
        num_frames -= len(last)
        yield last
    if num_frames and last is not None:
        yield np.zeros((num_frames, last.shape[1]), last.dtype)
