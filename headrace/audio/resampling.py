"""Changing the sample rate of a stream of blocks, by soxr.

Owns the choice of quality and the bookkeeping of one segment's window (`segments.resampling_window`).

soxr keeps the ratio of common rates exactly. One that hardly reduces (44,100 to 44,099) it approximates, and drifts by
some hundred-thousandths of a frame per minute: far below one step of 16 bits, a hundred steps of 24.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import soxr

from headrace.audio.levels import Samples
from headrace.audio.segments import Window


def dtype_for(bits: Literal[16, 24]) -> str:
    """What to resample in: HQ computes in float32 and is good for 20 bits; 24 need VHQ, which computes in float64."""
    return "float32" if bits == 16 else "float64"


def resampled(
    blocks: Iterable[Samples], window: Window, num_frames: int, rates_hz: tuple[int, int], bits: Literal[16, 24]
) -> Iterator[Samples]:
    """The `num_frames` output frames of a segment from the blocks of its window.

    Args:
        blocks: float (frames, channels), all of the window that the recording has; silence stands in for the rest.
        window: what the blocks cover, and how many output frames precede the segment.
        num_frames: of the segment, at the output rate.
        rates_hz: source and output.
        bits: of the shard; decides the quality.

    Yields:
        Blocks in order, `num_frames` in total, whatever the sizes of the blocks that went in.
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
