"""Converts sample values to the 16 or 24 bits of a shard, and several channels to one.

All operations are elementwise, so results are the same on every machine. There is no dither, because equal input must
give equal bytes.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[Any]
"""(frames, channels): int16; int32 with the value in the upper bits, as libsndfile has it; float32 or float64."""


def to_pcm(block: Samples, bits: Literal[16, 24]) -> Samples:
    """Samples in the form that libsndfile takes for a stream of `bits`: int16, or int32 with 24 significant upper bits.

    int16 is returned as it is (libsndfile widens it). Wider integers are rounded half up, floats half to even. Values
    that do not fit are clipped. Floats must be finite.

    >>> to_pcm(np.array([[0.5], [1.5], [-1.5]]), 16).ravel().tolist()
    [16384, 32767, -32768]
    """
    if block.dtype == np.int16:
        return block
    if block.dtype == np.int32:
        return _round_integers(block, bits)
    limit = 1 << (bits - 1)
    scaled: Samples = block * block.dtype.type(limit)
    np.rint(scaled, out=scaled)
    np.clip(scaled, -limit, limit - 1, out=scaled)
    return scaled.astype(np.int16) if bits == 16 else np.left_shift(scaled.astype(np.int32), 8)


def to_mono(block: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean of the channels, (frames, 1). Channels are added one by one, because numpy's sum may reorder them."""
    total: npt.NDArray[np.float64] = block[:, 0].copy()
    for channel in range(1, block.shape[1]):
        total += block[:, channel]
    total /= block.shape[1]
    return total[:, None]


def first_non_finite(block: Samples) -> int | None:
    """Number of the first frame with a NaN or an infinity in any channel; None if all values are finite."""
    finite = np.isfinite(block)
    return None if finite.all() else int(np.argmin(finite.all(axis=1)))


def _round_integers(block: npt.NDArray[np.int32], bits: Literal[16, 24]) -> Samples:
    dropped = 32 - bits
    rounded = ((block >> (dropped - 1)) + 1) >> 1
    np.minimum(rounded, (1 << (bits - 1)) - 1, out=rounded)
    return rounded.astype(np.int16) if bits == 16 else np.left_shift(rounded, 8)
