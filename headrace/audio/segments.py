"""Where segments begin and end, and which source frames a resampled one needs: integer arithmetic only.

Owns the lengths that resampling promises and the seams between segments. It touches no samples.
"""

import math
from dataclasses import dataclass

from headrace.audio.forms import AudioFormat, Segment
from headrace.errors import ConfigError

CONTEXT_FRAMES = 1024
"""Frames of context on both sides of a resampled segment, counted at the lower of the two rates.

soxr's HQ filter spans about 190 frames of the lower rate and VHQ's 280 (Kaiser's estimate for 125 and 175 dB with a
transition band of 8.7% of Nyquist); beyond half of that an edge leaves no trace. The rest is margin.
"""


@dataclass(frozen=True, slots=True)
class Window:
    """The source frames that a segment is resampled from.

    `start_frame` is a multiple of the ratio's numerator, so that it falls on a frame of the output grid: every segment
    then sees the filter's phases as the whole recording does. `stop_frame` may lie past the recording's end, where
    silence stands in. The segment's first frame is number `skip_frames` of what comes out.
    """

    start_frame: int
    stop_frame: int
    skip_frames: int


def resampled_length(num_frames: int, source_rate_hz: int, rate_hz: int) -> int:
    """`num_frames * rate_hz / source_rate_hz`, rounded half up.

    >>> resampled_length(44_100, 44_100, 16_000), resampled_length(3, 2, 1)
    (16000, 2)
    """
    return (2 * num_frames * rate_hz + source_rate_hz) // (2 * source_rate_hz)


def plan_segments(num_frames: int, source_rate_hz: int, wanted: AudioFormat) -> tuple[Segment, ...]:
    """Cut a recording of `num_frames` source frames into segments of the shard's rate, in order and without gaps.

    Without `segment_seconds` there is one segment over everything. The last part is kept or dropped as
    `last_segment` says. A recording that is too short for the first segment, or for one frame at the new rate, gives
    none: the caller owes its users a reject for that.

    Raises:
        ConfigError: `segment_seconds` is shorter than a frame.

    >>> [s.num_frames for s in plan_segments(25, 10, AudioFormat(segment_seconds=1.0))]
    [10, 10, 5]
    >>> [s.num_frames for s in plan_segments(25, 10, AudioFormat(segment_seconds=1.0, last_segment="drop"))]
    [10, 10]
    """
    rate_hz = wanted.output_rate_hz(source_rate_hz)
    total = resampled_length(num_frames, source_rate_hz, rate_hz)
    length = total
    if wanted.segment_seconds is not None:
        length = round(wanted.segment_seconds * rate_hz)
        if length < 1:
            raise ConfigError(
                f"audio.segment_seconds: {wanted.segment_seconds} s is shorter than a frame at {rate_hz} Hz"
            )
    if total == 0:
        return ()
    stop = total - total % length if wanted.last_segment == "drop" else total
    return tuple(Segment(i, start, min(length, total - start)) for i, start in enumerate(range(0, stop, length)))


def resampling_window(segment: Segment, source_rate_hz: int, rate_hz: int) -> Window:
    """The source frames from which `segment` can be resampled as if the whole recording had been."""
    divisor = math.gcd(source_rate_hz, rate_hz)
    per_period_in, per_period_out = source_rate_hz // divisor, rate_hz // divisor
    context = -(-CONTEXT_FRAMES * source_rate_hz // min(source_rate_hz, rate_hz))
    first_needed = segment.start_frame * per_period_in // per_period_out - context
    period = max(0, first_needed // per_period_in)
    stop = -(-segment.stop_frame * per_period_in // per_period_out) + context
    return Window(period * per_period_in, stop, segment.start_frame - period * per_period_out)
