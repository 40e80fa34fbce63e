"""Plans where segments of a recording begin and end, and which source frames each of them needs. Pure arithmetic."""

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
class SourceWindow:
    """The source frames that a segment is resampled from.

    Attributes:
        start_frame: first source frame. It is a multiple of the ratio's numerator, and thus at the time of an output
            frame: every segment is then filtered with the same phases as the whole recording.
        stop_frame: one past the last source frame; frames after the recording's end are silence.
        skip_frames: number of output frames before the segment's first one.
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

    Without `segment_seconds`, there is one segment over the whole recording. A shorter last part is kept or dropped as
    `last_segment` says. A recording that is too short for one segment, or for one frame at the new rate, has no
    segments; the caller has to report it as rejected.

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


def resampling_window(segment: Segment, source_rate_hz: int, rate_hz: int) -> SourceWindow:
    """The source frames from which `segment` can be resampled with the same result as from the whole recording."""
    divisor = math.gcd(source_rate_hz, rate_hz)
    per_period_in, per_period_out = source_rate_hz // divisor, rate_hz // divisor
    context = -(-CONTEXT_FRAMES * source_rate_hz // min(source_rate_hz, rate_hz))
    first_needed = segment.start_frame * per_period_in // per_period_out - context
    period = max(0, first_needed // per_period_in)
    stop = -(-segment.stop_frame * per_period_in // per_period_out) + context
    return SourceWindow(period * per_period_in, stop, segment.start_frame - period * per_period_out)
