"""Tests of `headrace.views.names`."""

import pytest

from headrace.views.expression import Condition
from headrace.views.names import NoColumnError
from tests.support.conditions import NAMES


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("sn > 3", r"no column sn; did you mean snr \(quality\)"),
        ("zzz > 3", r'no column zzz; there are duration_seconds, lang, snr, speaker, split, text, "two words"'),
        ("quality.text = 'a'", r"no column quality\.text; did you mean text \(captions\)"),
        ("caption.text = 'a'", "no set of columns 'caption'; there are fact, metadata, captions, quality"),
        ("a.b.c = 1", r"no column a\.b\.c"),
        ('text = "de"', "no column de; .*single quotation marks"),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_similar_ones(condition, message):
    with pytest.raises(NoColumnError, match=message):
        Condition.of(condition, NAMES)
