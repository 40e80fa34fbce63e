"""A stream names its data set, and has a name of its own in saved states."""

import pytest

from headrace.errors import ConfigError
from headrace.streaming.stream import ONLY_STREAM, Stream, chosen


@pytest.mark.parametrize(
    ("streams", "names"),
    [
        ([Stream("s3://b/demo/audio"), Stream("/data/birds/audio/")], ["demo/audio", "birds/audio"]),
        ([Stream("a/audio", split="train"), Stream("a/audio", split="test")], ["a/audio#train", "a/audio#test"]),
        ([Stream("x/a/audio"), Stream("y/a/audio")], ["x/a/audio", "y/a/audio"]),
        (
            [Stream("a/audio"), Stream("a/audio", view="out/views/half/"), Stream("a/audio", where="snr > 3")],
            ["a/audio", "a/audio view half", "a/audio where snr > 3"],
        ),
        ([Stream("a/audio", name="one"), Stream("b/audio")], ["one", "b/audio"]),
        (Stream(local="a/audio"), ["a/audio"]),
    ],
)
def test_names_are_as_short_as_they_can_be_and_differ(streams, names):
    assert list(chosen(streams, None)[1]) == names


def test_a_single_data_set_has_one_name_wherever_its_copies_are():
    single = Stream("s3://b/demo/audio")
    assert chosen(None, single) == ((single,), (ONLY_STREAM,))


@pytest.mark.parametrize(
    ("streams", "single", "message"),
    [
        ([Stream("a")], Stream("b"), "streams and remote='b' are both given"),
        (None, None, "no data set is named"),
        ([], None, "streams is empty"),
        (["a/audio"], None, r"expected a list of Stream\(remote=…\)|Stream\(remote=…\)"),
    ],
)
def test_both_ways_none_or_other_values_are_errors(streams, single, message):
    with pytest.raises(ConfigError, match=message):
        chosen(streams, single)


def test_a_local_folder_alone_is_read_in_place_and_beside_a_remote_it_is_the_cache():
    assert (Stream(local="a").place, Stream(local="a").cache) == ("a", None)
    assert (Stream("s3://b/a", local="cache").place, Stream("s3://b/a", local="cache").cache) == ("s3://b/a", "cache")
    with pytest.raises(ConfigError, match=r"Stream\(\) names no data set"):
        Stream()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"view": "half", "where": "snr > 3"}, "both given: put the condition into the view"),
        ({"latents": "latents/crepe"}, r"such as \['latents/crepe'\]"),
        ({"proportion": -1}, "proportion"),
        ({"batch_size": 0}, "batch_size"),
        ({"fields": []}, "fields is empty"),
        ({"key_at": "middle"}, "key_at"),
    ],
)
def test_invalid_settings_are_an_error_that_names_them(settings, message):
    with pytest.raises(ConfigError, match=message):
        Stream("a", **settings)
