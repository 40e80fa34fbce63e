"""`FrameBudget` in seconds is the budget in frames at the rate of the samples, and a budget is checked at once."""

import re

import pytest

from headrace import FrameBudget, Stream, StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError
from tests.support.streaming.corpus import LATENT_HOP, RATE_HZ, clips, write_dataset

SECONDS = 1.1


def keys(remote, budget, **more):
    dataset = StreamingDataset(remote=str(remote), split="train", shuffle=True, batching=budget, **more)
    return [batch["keys"] for batch in StreamingDataLoader(dataset)]


@pytest.mark.parametrize(
    ("folder", "more", "rate_hz"),
    [
        ("audio", {}, RATE_HZ),
        ("audio", {"sample_rate": 4000}, 4000),
        ("audio", {"crop_seconds": 0.05}, RATE_HZ),
        ("latents/crepe", {}, RATE_HZ / LATENT_HOP),
        ("audio", {"latents": ["latents/crepe"]}, RATE_HZ),
    ],
    ids=str,
)
def test_a_budget_in_seconds_gives_the_batches_of_one_in_frames(dataset_folder, folder, more, rate_hz):
    more = more | {"latents": [f"{dataset_folder}/{name}" for name in more.get("latents", ())]}
    expected = keys(dataset_folder / folder, FrameBudget(int(SECONDS * rate_hz)), **more)
    assert keys(dataset_folder / folder, FrameBudget(seconds_per_batch=SECONDS), **more) == expected


def test_a_state_has_the_budget_in_frames(dataset_folder):
    budget = FrameBudget(seconds_per_batch=2)
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batching=budget)
    state = dataset.state_dict()
    assert state["order"]["buckets"] == {"frames_per_batch": 16000, "batch_multiple": 8, "window_samples": 8192}
    StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batching=budget).load_state_dict(state)


def test_streams_of_different_rates_need_frames_or_resampling(dataset_folder, tmp_path):
    write_dataset(tmp_path, {"train": clips(9)}, latents=True)
    streams = [Stream(f"{dataset_folder}/audio", split="train"), Stream(f"{tmp_path}/latents/crepe", split="train")]
    with pytest.raises(ConfigError, match=r"samples have 80, 8000 frames per second: .*frames_per_batch"):
        StreamingDataset(streams=streams, batching=FrameBudget(seconds_per_batch=2))


@pytest.mark.parametrize("given", [{}, {"frames_per_batch": 100, "seconds_per_batch": 1}])
def test_a_budget_has_one_limit(given):
    with pytest.raises(ConfigError, match="one of frames_per_batch and seconds_per_batch"):
        FrameBudget(**given)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "a", True])
def test_seconds_are_a_number(value):
    with pytest.raises(ConfigError, match=rf"^seconds_per_batch is {re.escape(repr(value))}"):
        FrameBudget(seconds_per_batch=value)


@pytest.mark.parametrize("budget", [FrameBudget(500), FrameBudget(seconds_per_batch=0.06)], ids=str)
def test_a_budget_without_room_is_an_error_when_the_dataset_is_opened(dataset_folder, budget):
    with pytest.raises(ConfigError, match="has no room for 8 rows"):
        StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batching=budget)
