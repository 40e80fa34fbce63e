"""The rule from probabilities to intervals, one setting at a time."""

from dataclasses import replace

import pytest

from headrace.features.speech_intervals import SpeechRule, speech_intervals

RULE = SpeechRule(chunk=100, threshold=0.5, min_speech=0, min_silence=200, padding=0)
CASES = {
    "silence": ([0.1] * 9, {}, []),
    "nothing": ([], {}, []),
    "speech to the end": ([0, 0.5, 0.9], {}, [(100, 290)]),
    "a short silence at the end": ([0.9, 0.9, 0.9, 0], {}, [(0, 390)]),
    "a short silence inside": ([0.9, 0.9, 0, 0, 0.9, 0, 0, 0], {}, [(0, 500)]),
    "a silence that ends it": ([0.9, 0.9, 0, 0, 0, 0.9, 0.9], {}, [(0, 200), (500, 690)]),
    "hysteresis keeps speech": ([0.9, 0.36, 0.4, 0.4, 0.4, 0, 0, 0], {}, [(0, 500)]),
    "and does not begin it": ([0.49, 0.9, 0, 0, 0], {}, [(100, 200)]),
    "nor does it end a silence": ([0.9, 0, 0.4, 0, 0], {}, [(0, 100)]),
    "the exit is never below 0.01": ([0.1, 0.009, 0, 0], {"threshold": 0.1}, [(0, 100)]),
    "as long as the least speech": ([0.9, 0.9, 0, 0, 0], {"min_speech": 200}, []),
    "longer than the least speech": ([0.9, 0.9, 0, 0, 0], {"min_speech": 199.5}, [(0, 200)]),
    "padding": ([0, 0.9, 0, 0, 0, 0], {"padding": 30.9}, [(69, 230)]),
    "padding at the ends": ([0.9, 0.9], {"padding": 30}, [(0, 190)]),
    "half of a silence": ([0.9, 0, 0, 0, 0.9], {"padding": 500}, [(0, 250), (250, 490)]),
    "more than twice the padding": ([0.9, 0, 0, 0, 0.9], {"padding": 120}, [(0, 220), (280, 490)]),
    "exactly twice the padding": ([0.9, 0, 0, 0, 0.9], {"padding": 150}, [(0, 250), (250, 490)]),
}


@pytest.mark.parametrize(("probabilities", "changes", "expected"), CASES.values(), ids=CASES)
def test_intervals_follow_the_rule(probabilities, changes, expected):
    num_frames = max(0, 100 * len(probabilities) - 10)
    assert speech_intervals(probabilities, num_frames, replace(RULE, **changes)) == expected
