"""Crops: where they cut, and that joined latents are cut with their audio."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError
from headrace.index import ShardIndex
from headrace.streaming.batches.crop import latents_under, on_grid
from tests.streaming.corpus import LATENT_HOP, RATE_HZ, clips, write_dataset

CLIPS = {clip.key: clip for clip in clips(23)}
PACE = Fraction(1, LATENT_HOP)
WAYS = [
    {},
    {"transform": lambda sample: sample},  # sample by sample
    {"num_workers": 2},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Audio with its latents."""
    folder = tmp_path_factory.mktemp("crop")
    write_dataset(folder, {"train": list(CLIPS.values())}, latents=True)
    return folder


def batches(folder, kind="audio", num_workers=0, **settings):
    settings |= {"latents": [f"{folder}/latents/crepe"]} if kind == "audio" else {}
    dataset = StreamingDataset(remote=f"{folder}/{kind}", batch_size=4, shuffle=True, **settings)
    return list(StreamingDataLoader(dataset, num_workers=num_workers))


rates = st.sampled_from([8000, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000])
latent_rates = st.sampled_from([Fraction(50), Fraction(75), Fraction(100), Fraction(44_100, 2048), Fraction(86)])


@given(rate=rates, latent_rate=latent_rates, num_frames=st.integers(1, 10**7), data=st.data())
def test_a_crop_begins_where_a_latent_frame_does_and_has_its_latents(rate, latent_rate, num_frames, data):
    count = data.draw(st.integers(1, num_frames))
    drawn = data.draw(st.integers(0, num_frames - count))
    pace = latent_rate / rate
    num_latents = int(num_frames * pace) + data.draw(st.integers(0, 1))
    first = on_grid((drawn, count), pace, num_latents)
    start, kept = latents_under((first, count), pace, num_latents)
    assert 0 <= first <= drawn
    assert abs(start / pace - first) <= Fraction(1, 2)
    if num_latents:
        assert start + kept <= num_latents
    if num_latents >= count * pace + 1:
        assert kept == max(1, int(count * pace + Fraction(1, 2)))
    if num_latents > count * pace + 2:  # it is moved by less than two latent frames, the second at the end alone
        assert (drawn - first) * pace < 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("crop", [{"crop_frames": 200}, {"crop_seconds": 200 / RATE_HZ}])
def test_joined_latents_are_cut_with_their_audio(folder, crop, way):
    offsets = set()
    for batch in batches(folder, **crop, **way):
        assert batch["audio"].shape == (4, 1, 200)
        assert batch["encoder_hidden"].shape == (4, 2, 8)
        for row, key in enumerate(batch["keys"]):
            first = int(batch["frame_offset"][row])
            if not key:
                assert first == 0
                continue
            start = first // LATENT_HOP
            assert first == start * LATENT_HOP
            assert int(batch["encoder_offset"][row]) == start
            assert int(batch["encoder_length"][row]) == 2
            assert np.array_equal(batch["audio"][row].numpy(), CLIPS[key].audio()[:, first : first + 200])
            assert np.array_equal(batch["encoder_hidden"][row].numpy(), CLIPS[key].hidden()[start : start + 2])
            offsets.add(start)
    assert len(offsets) > 2


@pytest.mark.parametrize("way", WAYS)
def test_what_is_shorter_than_the_crop_keeps_all_of_its_latents(folder, way):
    for batch in batches(folder, crop_frames=600, **way):
        for row, key in enumerate(batch["keys"]):
            if key and CLIPS[key].num_frames <= 600:
                length = int(batch["encoder_length"][row])
                assert int(batch["encoder_offset"][row]) == 0
                assert np.array_equal(batch["encoder_hidden"][row, :length].numpy(), CLIPS[key].hidden())


@pytest.mark.parametrize("way", WAYS)
def test_latents_alone_are_cropped_in_seconds(folder, way):
    for batch in batches(folder, "latents/crepe", crop_seconds=3 * LATENT_HOP / RATE_HZ, **way):
        assert batch["encoder_hidden"].shape[1] == 3
        for row, key in enumerate(batch["keys"]):
            if key:
                start = int(batch["encoder_offset"][row])
                assert np.array_equal(batch["encoder_hidden"][row].numpy(), CLIPS[key].hidden()[start : start + 3])


def test_all_ways_cut_at_the_same_places(folder):
    for kind, crop in (
        ("audio", {"crop_frames": 250}),
        ("latents/crepe", {"crop_seconds": 0.04}),
        ("audio", {"crop_seconds": 1e-6}),
    ):
        expected, *others = (batches(folder, kind, **crop, **way) for way in WAYS)
        for other in others:
            for one, two in zip(expected, other, strict=True):
                assert one.keys() == two.keys()
                for name, value in one.items():
                    assert torch.equal(value, two[name]) if isinstance(value, torch.Tensor) else value == two[name]


@pytest.mark.parametrize("seconds", [0.06, 1e-6])
def test_buckets_know_what_a_crop_in_seconds_leaves_of_latents(folder, seconds):
    dataset = StreamingDataset(
        remote=f"{folder}/latents/crepe", batch_size=4, shuffle=True, batching="length_buckets", crop_seconds=seconds
    )
    rows = next(dataset.begin().plans()).rows
    lengths = dataset.reading.lengths(rows, dataset._samples)
    batch = next(iter(StreamingDataLoader(dataset)))
    assert lengths.tolist() == batch["encoder_length"].tolist()


def test_without_a_crop_nothing_says_where_one_begins(folder):
    (batch, *_) = batches(folder)
    assert not any("offset" in name for name in batch)


@pytest.mark.parametrize("kind", ["audio", "latents/crepe"])
def test_latents_whose_frame_rate_is_unknown_are_not_cropped_at_a_guess(tmp_path, kind):
    write_dataset(tmp_path, {"train": clips(5)}, latents=True)
    for path in (tmp_path / "latents/crepe").glob("*.idx"):
        index = ShardIndex.from_bytes(path.read_bytes(), path.name)
        path.write_bytes(dataclasses.replace(index, notes={}).to_bytes())
    with pytest.raises(ConfigError, match=r"latent_train.*\.tar: the index does not say how many frames a second"):
        batches(tmp_path, kind, crop_seconds=0.02)
    if kind != "audio":
        assert batches(tmp_path, kind, crop_frames=2)
