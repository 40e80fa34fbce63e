"""The function of `audio.transform` is imported by its name."""

import pytest

from headrace.audio.transform import load_transform
from headrace.errors import ConfigError


def doubled(audio, sample_rate, metadata):
    return audio * 2, sample_rate


def test_a_function_is_found_by_its_name():
    assert load_transform("tests.audio.test_transform:doubled") is doubled


@pytest.mark.parametrize("name", ["tests.audio.test_transform", "no.such.module:f", "tests.audio.test_transform:gone"])
def test_the_error_about_a_name_that_leads_nowhere_has_the_name(name):
    with pytest.raises(ConfigError, match=name):
        load_transform(name)
