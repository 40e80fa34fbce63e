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
from headrace.format.indexes.index_files import parse_index
from headrace.streaming.samples.crop import latents_under, on_grid
from tests.support.streaming.corpus import LATENT_HOP, RATE_HZ, clips, write_dataset, write_latents

CLIPS = {clip.key: clip for clip in clips(23)}
PACE = Fraction(1, LATENT_HOP)
WHOLE = 10**6  # frames of audio to a latent frame: more than any clip has
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


def without_notes(folder):
    for path in folder.glob("*.idx"):
        index = parse_index(path.read_bytes(), path.name)
        path.write_bytes(dataclasses.replace(index, notes={}).to_bytes())


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


@pytest.mark.parametrize(
    ("window", "num_latents", "expected"),
    [
        ((300, 400), 20, (3, 4)),
        ((300, 700), 5, (3, 2)),  # fewer than the audio has: to their end
        ((990, 10), 9, (8, 1)),  # none below it: the last one
        ((0, 10), 9, (0, 1)),
        ((300, 100), 0, (0, 0)),
    ],
)
def test_the_latents_below_a_window_end_where_latents_end(window, num_latents, expected):
    assert latents_under(window, PACE, num_latents) == expected


@pytest.mark.parametrize(
    ("window", "num_latents", "first"),
    [
        ((350, 100), 20, 300),
        ((350, 400), 6, 200),  # moved back until all of its latents exist
        ((350, 400), 3, 0),  # fewer latents than it needs
        ((50, 20), 20, 0),
    ],
)
def test_a_crop_is_moved_back_to_the_grid(window, num_latents, first):
    assert on_grid(window, PACE, num_latents) == first


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


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Audio with latents of three kinds: frames, frames half as often, and one vector for each clip."""
    folder = tmp_path_factory.mktemp("vectors")
    short = dataclasses.replace(CLIPS["clip00000"], number=23, num_frames=LATENT_HOP + 20)
    samples = [*CLIPS.values(), short]
    audio = write_dataset(folder, {"train": samples})
    for name, hop in (("crepe", LATENT_HOP), ("slow", 2 * LATENT_HOP), ("vector", WHOLE)):
        made = [dataclasses.replace(clip, latent_hop=hop) for clip in samples]
        write_latents(folder, {"train": made}, audio, name=name)
    return folder, {clip.key: clip for clip in samples}


def joined_to(vectors, names, num_workers=0, **settings):
    folder, _ = vectors
    dataset = StreamingDataset(
        remote=f"{folder}/audio",
        latents=[f"{folder}/latents/{name}" for name in names],
        batch_size=4,
        shuffle=True,
        **{"crop_frames": 250} | settings,
    )
    return list(StreamingDataLoader(dataset, num_workers=num_workers))


def offsets(batches):
    return [offset for batch in batches for offset in batch["frame_offset"].tolist()]


@pytest.mark.medium
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("timed", [[], ["crepe"]])
def test_a_vector_for_each_clip_stays_whole_and_leaves_the_crop_where_it_is(vectors, timed, way):
    found = joined_to(vectors, ["vector", *timed], **way)
    assert offsets(found) == offsets(joined_to(vectors, timed))
    assert len([offset for offset in offsets(found) if offset]) > 10
    suffix = "_vector" if timed else ""
    for batch in found:
        assert not batch[f"encoder_offset{suffix}"].any()
        for row, key in enumerate(batch["keys"]):
            if key:
                whole = dataclasses.replace(vectors[1][key], latent_hop=WHOLE).hidden()
                assert np.array_equal(batch[f"encoder_hidden{suffix}"][row].numpy(), whole)


@pytest.mark.parametrize("way", WAYS)
def test_a_crop_begins_where_a_frame_of_the_slowest_latents_does(vectors, way):
    found = joined_to(vectors, ["crepe", "vector", "slow"], **way)
    for batch in found:
        for row, offset in enumerate(batch["frame_offset"].tolist()):
            assert offset == 2 * LATENT_HOP * int(batch["encoder_offset_slow"][row])
            assert offset == LATENT_HOP * int(batch["encoder_offset_crepe"][row])
    assert len(set(offsets(found))) > 2


def test_a_clip_of_one_latent_frame_keeps_to_the_time_axis_of_its_folder(vectors):
    found = joined_to(vectors, ["crepe"], crop_frames=30)
    starts = {key: offset for batch in found for key, offset in zip(batch["keys"], offsets([batch]), strict=True)}
    assert starts["clip00023"] == 0
    assert len(set(starts.values())) > 5


def test_latents_without_a_time_axis_need_no_frame_rate(tmp_path):
    audio = write_dataset(tmp_path, {"train": clips(5)})
    write_latents(tmp_path, {"train": [dataclasses.replace(clip, latent_hop=WHOLE) for clip in clips(5)]}, audio)
    without_notes(tmp_path / "latents/crepe")
    assert any(offsets(batches(tmp_path, crop_frames=100)))
    assert any(offsets(batches(tmp_path, crop_seconds=0.02)))


@pytest.mark.medium
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
    rows = next(dataset.epochs.begin().plans()).rows
    lengths = dataset.reading.lengths(rows, dataset._samples)
    batch = next(iter(StreamingDataLoader(dataset)))
    assert lengths.tolist() == batch["encoder_length"].tolist()


def test_without_a_crop_nothing_says_where_one_begins(folder):
    (batch, *_) = batches(folder)
    assert not any("offset" in name for name in batch)


@pytest.mark.parametrize("kind", ["audio", "latents/crepe"])
def test_latents_whose_frame_rate_is_unknown_are_not_cropped_at_a_guess(tmp_path, kind):
    write_dataset(tmp_path, {"train": clips(5)}, latents=True)
    without_notes(tmp_path / "latents/crepe")
    with pytest.raises(ConfigError, match=r"latent_train.*\.tar: the index has no frame rate"):
        batches(tmp_path, kind, crop_seconds=0.02)
    if kind != "audio":
        assert batches(tmp_path, kind, crop_frames=2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["audio", "latents/crepe"])
def test_each_epoch_crops_elsewhere(folder, kind, way):
    dataset = StreamingDataset(
        remote=f"{folder}/{kind}",
        batch_size=len(CLIPS),
        crop_frames=250 if kind == "audio" else 2,
        **{name: value for name, value in way.items() if name != "num_workers"},
    )
    loader = StreamingDataLoader(dataset, num_workers=way.get("num_workers", 0))
    name = "audio" if kind == "audio" else "encoder_hidden"
    ((one,), (two,)) = list(loader), list(loader)
    assert one["keys"] == two["keys"]
    assert one[name].shape == two[name].shape
    assert not torch.equal(one[name], two[name])
