"""Samples are stacked into batches with padding, and come out of batches as they went in."""

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.streaming.batches.stacking import check_channels, check_width, collate, padding_like


def sample(key, num_frames, num_latent, **more):
    rng = np.random.default_rng(num_frames)
    return {
        "__key__": key,
        "audio": rng.standard_normal((2, num_frames)).astype(np.float32),
        "sample_rate": 8000,
        "encoder_hidden": rng.standard_normal((num_latent, 3)).astype(np.float16),
        "encoder_length": num_latent,
        "metadata": {"title": key},
        **more,
    }


SAMPLES = [sample("a", 7, 2, label=1, text="x"), sample("b", 5, 4, label=2, text="y")]


def test_rows_are_padded_with_zeros_to_the_longest():
    batch = collate(SAMPLES)
    assert (batch["audio"].shape, batch["encoder_hidden"].shape) == ((2, 2, 7), (2, 4, 3))
    assert (batch["num_frames"].tolist(), batch["encoder_length"].tolist()) == ([7, 5], [2, 4])
    assert not batch["audio"][1, :, 5:].any()
    assert not batch["encoder_hidden"][0, 2:].any()
    assert torch.equal(batch["label"], torch.tensor([1, 2]))
    assert (batch["keys"], batch["text"], batch["is_padding"].tolist()) == (["a", "b"], ["x", "y"], [False, False])


def test_a_row_of_padding_has_the_fields_of_the_others_and_nothing_in_them():
    batch = collate([SAMPLES[0], padding_like(SAMPLES[0])])
    assert (batch["keys"], batch["is_padding"].tolist()) == (["a", ""], [False, True])
    assert all(not batch[name][1].any() for name in ("audio", "encoder_hidden", "label", "sample_rate"))
    alone = collate([padding_like(SAMPLES[0])])
    assert alone.keys() == batch.keys()
    assert alone["audio"].shape == (1, 2, 7)


def test_rows_that_differ_in_channels_or_width_are_an_error_with_an_example_of_each():
    assert (check_channels({}, str), check_channels({0: 2, 1: 2}, str)) == (1, 2)
    assert (check_width({}, str), check_width({3: (8, "float16")}, str)) == ((0, "float32"), (8, "float16"))
    with pytest.raises(ConfigError, match=r"audio of 1 and 2 channels \(1 in row 4, 2 in row 3\)"):
        check_channels({3: 2, 4: 1}, lambda row: f"row {row}")
    with pytest.raises(ConfigError, match=r"shapes \(T, 8\) float16 and \(T, 8\) float32"):
        check_width({0: (8, "float32"), 1: (8, "float16")}, str)


def test_a_sample_that_no_batch_can_hold_is_named():
    with pytest.raises(ConfigError, match="'b' of a batch has a list as audio"):
        collate([SAMPLES[0], {"__key__": "b", "audio": [0.5]}])


@pytest.mark.parametrize(("value", "empty"), [(b"hello", b""), ("hello", ""), ([1], None), ({"a": 1}, None)], ids=str)
def test_a_row_of_padding_that_lacks_a_field_is_empty_as_one_that_has_it(value, empty):
    real = {"__key__": "a", "found": value}
    for padding in ({"__key__": "", "is_padding": True}, padding_like(real)):
        assert collate([real, padding])["found"] == [value, empty]
