"""Named audio fields: which names a sample states, and how long a sample of several is."""

import pytest

from headrace.audio import AudioReject
from headrace.errors import AudioError
from headrace.format.indexes.audio_fields import AudioFacts, common_facts, of_field, stated_audio_fields


@pytest.mark.parametrize(
    ("metadata", "files", "names"),
    [
        ({"headrace": {"fields": {"mix": {}, "vocals": {}}}}, ["mix.flac", "vocals.flac"], ("mix", "vocals")),
        ({"headrace": {"fields": {"mix": {}, "vocals": {}}}}, ["mix.flac"], ("mix", "vocals")),
        ({"headrace": {"fields": {"mix": {}}}}, ["flac"], ()),
        ({"headrace": {"fields": ["mix"]}}, ["mix.flac"], ()),
        ({"headrace": "mix"}, ["mix.flac"], ()),
        ({}, ["mix.flac"], ()),
    ],
)
def test_fields_are_those_that_the_json_lists_if_a_file_holds_one_of_them(metadata, files, names):
    assert stated_audio_fields(metadata, files) == names


def test_a_sample_ends_with_its_shortest_field_and_has_the_channels_of_its_first():
    assert common_facts({"audio": AudioFacts(-1, 0, 0)}) == AudioFacts(-1, 0, 0)
    fields = {"mix": AudioFacts(1000, 8000, 2), "vocals": AudioFacts(600, 8000, 1)}
    assert common_facts(fields) == AudioFacts(600, 8000, 2)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (AudioFacts(1000, 16_000, 1), r"differ in sample rate \(mix: 8000, vocals: 16000 Hz\)"),
        (AudioFacts(1401, 8000, 1), r"differ in length by more than 0\.05 s \(mix: 1000, vocals: 1401 frames at 8000"),
    ],
)
def test_fields_that_differ_too_much_are_an_error_with_both_values(other, message):
    with pytest.raises(AudioError, match=message) as caught:
        common_facts({"mix": AudioFacts(1000, 8000, 1), "vocals": other})
    assert caught.value.reason is AudioReject.FIELDS_DIFFER


def test_the_error_of_a_field_has_its_name_and_keeps_its_reason():
    error = of_field("vocals", AudioError(AudioReject.FIELDS_DIFFER, "cut off"))
    assert (str(error), error.reason) == ("audio field 'vocals': cut off", AudioReject.FIELDS_DIFFER)
