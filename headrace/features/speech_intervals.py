"""Turns probabilities of speech into intervals, by the rule of silero's `get_speech_timestamps`. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_HYSTERESIS, _LEAST_EXIT = 0.15, 0.01


@dataclass(frozen=True, slots=True)
class SpeechRule:
    """The rule from probabilities to intervals; lengths are in PCM frames.

    Attributes:
        chunk: frames that a probability is of.
        threshold: probability from which a chunk begins speech.
        min_speech: intervals of this length or less are dropped, before padding.
        min_silence: silence that ends an interval.
        padding: added before and after each interval; half of the silence between two that are nearer.
    """

    chunk: int
    threshold: float
    min_speech: float
    min_silence: float
    padding: float

    @property
    def exit(self) -> float:
        """Probability below which a chunk may end speech."""
        return max(self.threshold - _HYSTERESIS, _LEAST_EXIT)


def speech_intervals(probabilities: Sequence[float], num_frames: int, rule: SpeechRule) -> list[tuple[int, int]]:
    """Intervals (start, end) of speech in a recording of `num_frames`, in order, without overlap.

    >>> rule = SpeechRule(chunk=100, threshold=0.5, min_speech=100, min_silence=200, padding=30)
    >>> speech_intervals([0, 0.9, 0.4, 0.9, 0.1, 0.1, 0.1], 700, rule)
    [(70, 430)]
    """
    spoken = _spoken(probabilities, num_frames, rule)
    return _padded([one for one in spoken if one[1] - one[0] > rule.min_speech], num_frames, rule.padding)


def _spoken(probabilities: Sequence[float], num_frames: int, rule: SpeechRule) -> Iterator[tuple[int, int]]:
    """Intervals without padding. A probability between exit and threshold changes nothing."""
    start = quiet = None  # where the present interval began, and its last silence
    for number, probability in enumerate(probabilities):
        at = number * rule.chunk
        if probability >= rule.threshold:
            start, quiet = at if start is None else start, None
        elif start is not None and probability < rule.exit:
            quiet = at if quiet is None else quiet
            if at - quiet >= rule.min_silence:
                yield start, quiet
                start = quiet = None
    if start is not None:
        yield start, num_frames


def _padded(spoken: list[tuple[int, int]], num_frames: int, padding: float) -> list[tuple[int, int]]:
    if not spoken:
        return []
    starts, ends = [int(max(0, spoken[0][0] - padding))], []
    for (_, end), (start, _) in pairwise(spoken):
        silence = start - end
        near = silence < 2 * padding
        ends.append(end + silence // 2 if near else int(end + padding))
        starts.append(start - silence // 2 if near else int(start - padding))
    ends.append(int(min(num_frames, spoken[-1][1] + padding)))
    return list(zip(starts, ends, strict=True))
