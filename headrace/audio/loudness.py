"""Peak, loudness and flaws of a recording: the seven numbers of `kind: levels`. Pure; needs numpy and soxr alone.

Loudness is the integrated loudness of ITU-R BS.1770-5 and EBU R 128: K-weighting, blocks of 400 ms every 100 ms,
and two gates. Filters run in the frequency domain, part by part, so that long recordings take bounded memory.
"""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import soxr

if TYPE_CHECKING:
    from collections.abc import Iterator

Samples = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Edges = npt.NDArray[np.int64]

SILENT_DBFS = -60.0
"""A block of 100 ms whose RMS is below this is silent."""
_FULL = 32767 / 32768
"""Samples from here on are clipped: the largest of 16 bits, which is smaller than 1."""
_ABSOLUTE_GATE_LUFS, _RELATIVE_GATE_LU = -70.0, -10.0
_PEAK_RATE_HZ = 176_400  # true peaks are those at four times 44.1 kHz, or more
_WARM_SECONDS = 1  # after it, the filters have forgotten by more than float64 holds
_PART_SECONDS = 8  # at least so much is filtered at a time
_PEAK_FRAMES = 1 << 13  # four times as many stay in a core's cache
_REAR = 1.41
_WEIGHTS = {
    1: (1,), 2: (1, 1), 3: (1, 1, 1), 4: (1, 1, _REAR, _REAR), 5: (1, 1, 1, _REAR, _REAR),
    6: (1, 1, 1, 0, _REAR, _REAR), 7: (1, 1, 1, 0, _REAR, _REAR, _REAR), 8: (1, 1, 1, 0, _REAR, _REAR, _REAR, _REAR),
}  # fmt: skip
"""Weights of channels in FLAC's order; low frequency effects do not count."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of a recording.

    Attributes:
        peak_dbfs: largest sample; None for digital silence.
        true_peak_dbtp: largest value between samples, at four times 44.1 kHz or more; may exceed 0; None for silence.
        rms_dbfs: root of the mean square of all samples (a full sine: -3.01); None for silence.
        loudness_lufs: integrated loudness; None if no block of 400 ms is louder than -70 LUFS.
        clipped_share: share of samples of at least 32,767 / 32,768.
        silent_share: share of blocks of 100 ms whose RMS is below -60 dBFS.
        dc_offset: mean of the channel whose mean is farthest from 0.
    """

    peak_dbfs: float | None
    true_peak_dbtp: float | None
    rms_dbfs: float | None
    loudness_lufs: float | None
    clipped_share: float
    silent_share: float
    dc_offset: float


def levels(samples: Samples, sample_rate_hz: int) -> Levels:
    """The levels of float32 samples (channels, frames), -1 to 1; at least one frame and at most eight channels."""
    edges = _edges(samples.shape[1], sample_rate_hz)
    peak = float(max(samples.max(), -samples.min()))
    means = samples.mean(1, dtype=np.float64)
    mean_square = float(np.mean(np.square(samples, dtype=np.float64)))
    power = _power(samples, edges).mean(0) if len(edges) > 1 else np.array([mean_square])
    return Levels(
        peak_dbfs=_decibels(peak**2),
        true_peak_dbtp=_decibels(_true_peak(samples, sample_rate_hz, peak) ** 2),
        rms_dbfs=_decibels(mean_square),
        loudness_lufs=loudness(samples, sample_rate_hz),
        clipped_share=float(np.mean(np.abs(samples) >= _FULL)) if peak >= _FULL else 0.0,
        silent_share=float(np.mean(power < 10 ** (SILENT_DBFS / 10))),
        dc_offset=float(means[np.abs(means).argmax()]),
    )


def loudness(samples: Samples, sample_rate_hz: int) -> float | None:
    """Integrated loudness in LUFS; None if no block of 400 ms is louder than -70 LUFS."""
    edges = _edges(samples.shape[1], sample_rate_hz)
    if len(edges) < 5:
        return None
    parts = [_power(part, cut) for part, cut in _weighted(samples, sample_rate_hz, edges)]
    tenths = np.array(_WEIGHTS[len(samples)]) @ np.concatenate(parts, axis=1)
    blocks = (tenths[:-3] + tenths[1:-2] + tenths[2:-1] + tenths[3:]) / 4
    loud = blocks[blocks > _power_of(_ABSOLUTE_GATE_LUFS)]
    if not len(loud):
        return None
    gated = loud[loud > loud.mean() * 10 ** (_RELATIVE_GATE_LU / 10)]
    return float(10 * np.log10(gated.mean()) - 0.691)


def _edges(num_frames: int, sample_rate_hz: int) -> Edges:
    """Edges of the whole blocks of 100 ms, in PCM frames."""
    return np.arange(num_frames * 10 // sample_rate_hz + 1) * sample_rate_hz // 10


def _power(samples: Samples | Numbers, edges: Edges) -> Numbers:
    """Mean squares (channels, blocks) between edges."""
    squares = np.square(samples[:, edges[0] : edges[-1]], dtype=np.float64)
    found: Numbers = np.add.reduceat(squares, edges[:-1] - edges[0], axis=1) / np.diff(edges)
    return found


def _weighted(samples: Samples, sample_rate_hz: int, edges: Edges) -> "Iterator[tuple[Numbers, Edges]]":
    """K-weighted parts of whole blocks, each with the edges of its blocks.

    A part follows on a second of what is before it, or of silence, which takes the end of the part that the transform
    wraps around to the front.
    """
    warm = _WARM_SECONDS * sample_rate_hz
    size = 1 << (min(int(edges[-1]), _PART_SECONDS * sample_rate_hz) + warm - 1).bit_length()
    num_blocks = (size - warm) * 10 // sample_rate_hz - 1  # blocks of 100 ms differ by a frame at some rates
    response = _k_response(size, sample_rate_hz)
    part = np.empty((len(samples), size))
    for first in range(0, len(edges) - 1, num_blocks):
        cut = edges[first : first + num_blocks + 1]
        start, stop = max(0, int(cut[0]) - warm), int(cut[-1])
        before = warm - int(cut[0]) + start
        part[:, :before], part[:, before + stop - start :] = 0, 0
        part[:, before : before + stop - start] = samples[:, start:stop]
        found: Numbers = np.fft.irfft(np.fft.rfft(part) * response, size)
        yield found, cut - start + before


@functools.lru_cache(4)
def _k_response(size: int, sample_rate_hz: int) -> npt.NDArray[np.complex128]:
    """Response of the two K-weighting filters, designed for a sample rate from their analogue prototypes."""
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size))
    response = np.ones(len(z), np.complex128)
    for b, a in k_filters(sample_rate_hz):
        response *= np.polyval(b[::-1], z) / np.polyval(a[::-1], z)
    return response


def k_filters(sample_rate_hz: int) -> tuple[tuple[Numbers, Numbers], ...]:
    """Coefficients (b, a) of the shelf and the high-pass; at 48 kHz those of BS.1770's tables."""
    warped = np.tan(np.pi * 1681.974450955533 / sample_rate_hz)
    high = 10 ** (3.999843853973347 / 20)
    middle, slope = high**0.4996667741545416, warped / 0.7071752369554196
    shelf_b = [high + middle * slope + warped**2, 2 * (warped**2 - high), high - middle * slope + warped**2]
    shelf_a = [1 + slope + warped**2, 2 * (warped**2 - 1), 1 - slope + warped**2]
    low = np.tan(np.pi * 38.13547087602444 / sample_rate_hz)
    slope = low / 0.5003270373238773
    pass_a = [1 + slope + low**2, 2 * (low**2 - 1), 1 - slope + low**2]
    return (
        (np.array(shelf_b) / shelf_a[0], np.array(shelf_a) / shelf_a[0]),
        (np.array([1.0, -2.0, 1.0]), np.array(pass_a) / pass_a[0]),
    )


def _true_peak(samples: Samples, sample_rate_hz: int, peak: float) -> float:
    """Largest value of the samples, which is `peak`, and of those between them."""
    factor = max(1, -(-_PEAK_RATE_HZ // sample_rate_hz))
    if factor == 1 or not peak:
        return peak
    stream = soxr.ResampleStream(sample_rate_hz, sample_rate_hz * factor, len(samples), quality="VHQ")
    for start in range(0, samples.shape[1], _PEAK_FRAMES):
        part = np.ascontiguousarray(samples[:, start : start + _PEAK_FRAMES].T)
        found = stream.resample_chunk(part, last=start + _PEAK_FRAMES >= samples.shape[1])
        peak = max(peak, float(found.max(initial=0.0)), -float(found.min(initial=0.0)))
    return peak


def _power_of(lufs: float) -> float:
    return float(10 ** ((lufs + 0.691) / 10))


def _decibels(power: float) -> float | None:
    return float(10 * np.log10(power)) if power > 0 else None
