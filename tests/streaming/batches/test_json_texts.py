"""The JSON of many samples in one text is what each is alone."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.batches.json_texts import parsed, parsed_together

TEXTS = ['{"title": "a"}', ' {"title": "a"}\n', "{}", "[1, 2]", "12", "3", "", "\ufeff{}", '{"title": "é"}', "null"]


@given(st.lists(st.sampled_from(TEXTS)))
def test_texts_parsed_together_are_as_parsed_alone(texts):
    blobs = [text.encode() for text in texts]
    ends = list(itertools.accumulate(map(len, blobs)))
    assert parsed_together(b"".join(blobs), ends) == [parsed(blob) if blob else {} for blob in blobs]


@pytest.mark.parametrize("texts", [['{"a": [1', "2]}"], ["{}{}", "{}"], ['{"a": 1}', "{"]])
def test_texts_that_are_none_alone_are_none_together(texts):
    blobs = [text.encode() for text in texts]
    with pytest.raises(ValueError, match="column"):
        parsed_together(b"".join(blobs), list(itertools.accumulate(map(len, blobs))))
