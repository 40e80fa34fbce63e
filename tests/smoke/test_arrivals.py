"""Tests of `headrace.smoke.arrivals`."""

import pytest
import torch

from headrace.smoke.arrivals import (
    ArrivedSample,
    JoinedArrival,
    arrived_batch,
    arrived_sample,
    content_of,
    joined_batch,
)

STATED = {"num_frames": 4, "sample_rate": 8000, "num_channels": 1, "frame_rate_hz": 50}


def audio_sample(values=(0.5, -1.0, 1.0, 0.0), **stated):
    return {
        "__key__": "a", "audio": torch.tensor([values]), "sample_rate": 8000, "metadata": {"headrace": STATED | stated},
    }  # fmt: skip


def latent_sample(length, seconds):
    hidden = torch.arange(3.0 * (length + 1)).reshape(length + 1, 3)
    stated = STATED | {"num_frames": 8000 * seconds}
    return {
        "__key__": "a", "encoder_hidden": hidden, "encoder_length": length, "metadata": {"headrace": stated},
    }  # fmt: skip


def test_facts_of_audio():
    found = arrived_sample(audio_sample())
    assert found == ArrivedSample(
        "a", 4, 1, 8000, True, content_of(torch.tensor([[0.5, -1.0, 1.0, 0.0]])), "", full_scale=0.5
    )
    assert found.content != arrived_sample(audio_sample((0.5, 0.0, 1.0, 0.0))).content
    beyond = arrived_sample(audio_sample((0.5, -1.001, 1.0, 0.0)))
    assert (beyond.is_finite, beyond.exceeds) == (True, True)
    assert not arrived_sample(audio_sample((0.5, float("nan"), 1.0, 0.0))).is_finite
    assert not arrived_sample(audio_sample((0.5, float("-inf"), 1.0, 0.0))).is_finite
    assert ArrivedSample("a", 4, 1, 8000, is_finite=True).content == 0


def test_audio_that_contradicts_its_json_says_how():
    wrong = arrived_sample(audio_sample(num_frames=5, num_channels=2)).contradiction
    assert wrong == "num_frames is 4, the sample's JSON says 5; num_channels is 1, the sample's JSON says 2"


def test_facts_of_latents():
    found = arrived_sample(latent_sample(50, seconds=1))
    assert (found.num_frames, found.width, found.sample_rate_hz, found.is_finite) == (50, 3, 0, True)
    assert found.content == content_of(torch.arange(150.0).reshape(50, 3))  # without what follows its length


@pytest.mark.parametrize(
    ("length", "seconds", "fits"),
    [(48, 1, True), (52, 1, True), (47, 1, False), (53, 1, False), (505, 10, True), (506, 10, False), (0, 0, True)],
)
def test_latents_may_be_two_frames_or_a_hundredth_longer_or_shorter_than_their_audio(length, seconds, fits):
    wrong = arrived_sample(latent_sample(length, seconds)).contradiction
    assert wrong == ("" if fits else f"{length} latent frames, expected {50 * seconds}.0 from the length of its audio")


FINE, COARSE = {"fine": (160, 16_000)}, {"coarse": (10_000, 16_000)}
NAMED = {
    "chunks of a second, as of EnCodec 48 kHz": (1.1, 150, {"codes": (320, 48_000), "scales": (1, 1)}, 300, True),
    "whole frames of the slowest output": (1.0, 100, FINE | COARSE, 125, True),
    "half a second too many": (1.0, 100, FINE, 150, True),
    "half a second too few": (1.0, 100, FINE, 50, True),
    "twice the frames": (10.0, 100, FINE, 2000, False),
    "half of the frames": (10.0, 100, FINE | COARSE, 500, False),
}


@pytest.mark.parametrize(("seconds", "rate_hz", "outputs", "length", "fits"), NAMED.values(), ids=NAMED)
def test_named_outputs_may_differ_by_what_a_build_accepts(seconds, rate_hz, outputs, length, fits):
    listed = [
        {"name": name, "kind": "frames", "hop": hop, "sample_rate_hz": of_hop}
        for name, (hop, of_hop) in outputs.items()
    ]
    stated = STATED | {"num_frames": round(8000 * seconds), "frame_rate_hz": rate_hz, "outputs": listed}
    sample = {"__key__": "a", "metadata": {"headrace": stated}}
    for name in outputs:
        sample |= {name: torch.zeros(length, 1), f"{name}_length": length}
    assert (arrived_sample(sample).contradiction == "") == fits


def test_kaldis_frames_without_padding_fit_their_audio():
    """`fbank` with `snip_edges: true`: windows of 25 ms every 10 ms, none of which goes on behind the audio."""
    for num_frames in range(400, 48_000, 79):
        found = latent_sample(1 + (num_frames - 400) // 160, 1)
        found["metadata"]["headrace"] |= {"num_frames": num_frames, "sample_rate": 16_000, "frame_rate_hz": 100.0}
        assert not arrived_sample(found).contradiction


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_latents_have_no_limit_and_are_finite(dtype):
    sample = latent_sample(50, seconds=1)
    sample["encoder_hidden"] = torch.full((51, 3), 7.0, dtype=dtype)
    assert (arrived_sample(sample).is_finite, arrived_sample(sample).exceeds) == (True, False)
    sample["encoder_hidden"][2, 1] = float("nan")
    assert not arrived_sample(sample).is_finite
    assert content_of(torch.zeros(0, 3)) == 0


def batch_of(**more):
    return {
        "keys": ["a", "", "b"],
        "metadata": [{"headrace": STATED}, None, {"headrace": STATED | {"num_frames": 2}}],
        "audio": torch.arange(12.0).reshape(3, 1, 4) / 12,
        "num_frames": torch.tensor([4, 0, 2]),
        "sample_rate": torch.tensor([8000, 0, 8000]),
        "is_padding": torch.tensor([False, True, False]),
    } | more  # fmt: skip


def test_rows_of_a_batch_are_samples_without_padding():
    found = list(arrived_batch(batch_of()))
    assert [(sample.key, sample.num_frames, sample.contradiction) for sample in found] == [("a", 4, ""), ("b", 2, "")]
    batch = batch_of(keys=["a"])
    del batch["is_padding"]
    assert [sample.key for sample in arrived_batch(batch)] == ["a"]


def test_rows_of_latents_end_at_their_lengths():
    hidden = torch.arange(300.0).reshape(2, 50, 3)
    stated = {"headrace": STATED | {"num_frames": 8000}}
    batch = {
        "keys": ["a", "b"], "metadata": [stated, stated], "encoder_hidden": hidden,
        "encoder_length": torch.tensor([50, 49]),
    }  # fmt: skip
    assert [sample.num_frames for sample in arrived_batch(batch)] == [50, 49]


def test_joined_rows_have_the_values_of_audio_and_latents():
    hidden = torch.arange(30.0).reshape(3, 2, 5)
    batch = batch_of(encoder_hidden_x=hidden, encoder_length_x=torch.tensor([2, 0, 1]))
    contents = [tuple(map(content_of, parts)) for parts in (
        (batch["audio"][0], hidden[0]), (batch["audio"][2, :, :2], hidden[2, :1]),
    )]  # fmt: skip
    assert list(joined_batch(batch, [{"encoder_hidden_x": "encoder_length_x"}])) == [
        JoinedArrival("a", contents[0]),
        JoinedArrival("b", contents[1]),
    ]
