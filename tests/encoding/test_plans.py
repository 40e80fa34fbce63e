"""Why a sample has no latents, and how many threads an encoding has."""

import pytest

from headrace.encoding.plans import EncodingOptions, NoLatents


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [("float16", "store them as bfloat16 or float32"), ("bfloat16", "store them as float32")],
)
def test_latents_that_do_not_fit_say_which_dtype_is_wider(dtype, remedy):
    found = NoLatents.overflow(dtype)
    assert found.code != NoLatents.not_finite().code
    assert found.reason == f"its latents do not fit {dtype}; {remedy}"


def test_the_length_of_a_batch_is_said_in_seconds_if_it_was_chosen():
    assert EncodingOptions(2.5).batch_in_words == "2.5 s"
    assert EncodingOptions().batch_in_words == "a length that fits the device"


def test_threads_that_decode_and_fetch_grow_with_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight GPUs take more than one does, as far as the machine has cores."""
    monkeypatch.setattr("headrace.encoding.plans.num_cores", lambda: 64)
    options = EncodingOptions()
    assert [options.decoding_threads(devices) for devices in (1, 2, 8)] == [16, 32, 64]
    assert [options.fetching_threads(devices) for devices in (1, 8, 32)] == [4, 32, 64]
    assert EncodingOptions(num_threads=3).decoding_threads(8) == 3
