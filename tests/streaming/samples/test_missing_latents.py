"""Samples whose latents were rejected when they were made: an error, a row of padding, or latents of length 0."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch

from headrace import FrameBudget, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, SampleError
from headrace.streaming.batches.copied_batch import CopiedBatch
from tests.support.streaming.corpus import LATENT_HOP, WIDTH, clips, write_dataset, write_latents

CLIPS = {clip.key: clip for clip in clips(24)}
KEYS = list(CLIPS)
PER_SHARD = 6
PLACES = {
    "first": KEYS[:1],
    "last": KEYS[-1:],
    "middle": [KEYS[2], KEYS[9]],
    "all of a shard": KEYS[6:12],
    "all of the first shards": KEYS[:12],
    "one of two": KEYS[::2],
}
KINDS = ["latents/crepe", "audio"]
WAYS = {
    "threads": {},
    "workers": {"num_workers": 2},
    "one by one": {"transform": lambda sample: sample},
    "numpy": {"output": "numpy"},
}

TRIED = [
    (place, way) for place in PLACES for way in WAYS if way in {"threads", "one by one"} or "first shards" in place
]
EVERYWHERE = pytest.mark.parametrize(
    ("place", "way"), [(place, WAYS[way]) for place, way in TRIED], ids=map("-".join, TRIED)
)


def write(folder, rejected, name="crepe", audio=None, hop=LATENT_HOP):
    """Audio and its latents, of which some were rejected."""
    samples = list(CLIPS.values())
    audio = audio or write_dataset(folder, {"train": samples}, per_shard=PER_SHARD)
    made = [
        dataclasses.replace(clip, latent_hop=hop, rejection="not_finite" * (clip.key in rejected)) for clip in samples
    ]
    write_latents(folder, {"train": made}, audio, per_shard=PER_SHARD, name=name)
    return audio


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("missing")
    for name, rejected in PLACES.items():
        write(root / name.replace(" ", "_"), rejected)
    return {name: root / name.replace(" ", "_") for name in PLACES}


def dataset(folder, kind, choice="raise", **settings):
    latents = [f"{folder}/latents/crepe"] if kind == "audio" else ()
    settings = {"batch_size": 4, "shuffle": True} | settings
    return StreamingDataset(remote=f"{folder}/{kind}", latents=latents, on_missing_latents=choice, **settings)


def batches(folder, kind, choice, num_workers=0, **settings):
    return list(StreamingDataLoader(dataset(folder, kind, choice, **settings), num_workers=num_workers))


def check_row(batch, row, key, kind):
    clip, whole = CLIPS[key], CLIPS[key].hidden()
    length = int(batch["encoder_length"][row])
    assert np.array_equal(np.asarray(batch["encoder_hidden"][row, :length]), whole)
    assert not np.asarray(batch["encoder_hidden"][row, length:]).any()
    if kind == "audio":
        assert np.array_equal(np.asarray(batch["audio"][row, :, : clip.num_frames]), clip.audio())
    assert batch["metadata"][row]["title"] == f"Clip {clip.number}"


@pytest.mark.parametrize("kind", KINDS)
@EVERYWHERE
def test_skip_gives_a_row_of_padding_in_its_place(folders, place, kind, way):
    order = [sample["__key__"] for sample in dataset(folders[place], kind, "zeros")]
    found = batches(folders[place], kind, "skip", **way)
    keys = [key for batch in found for key in batch["keys"]]
    assert keys == ["" if key in PLACES[place] else key for key in order]
    for batch in found:
        assert batch["encoder_hidden"].shape[::2] == (4, WIDTH)
        assert batch["is_padding"].tolist() == [not key for key in batch["keys"]]
        assert ("audio" in batch) == (kind == "audio")
        for row, key in enumerate(batch["keys"]):
            if key:
                check_row(batch, row, key, kind)
            else:
                assert not batch["encoder_length"][row]
                assert not np.asarray(batch["encoder_hidden"][row]).any()
                assert batch["metadata"][row] == {}


@pytest.mark.parametrize("kind", KINDS)
@EVERYWHERE
def test_zeros_gives_the_sample_with_latents_of_length_0(folders, place, kind, way):
    found = batches(folders[place], kind, "zeros", **way)
    assert sorted(key for batch in found for key in batch["keys"]) == KEYS
    for batch in found:
        hidden = batch["encoder_hidden"]
        assert (hidden.shape[0], hidden.shape[2], str(hidden.dtype).rpartition(".")[2]) == (4, WIDTH, "float16")
        assert not np.asarray(batch["is_padding"]).any()
        for row, key in enumerate(batch["keys"]):
            if key not in PLACES[place]:
                check_row(batch, row, key, kind)
                continue
            assert int(batch["encoder_length"][row]) == 0
            assert not np.asarray(hidden[row]).any()
            assert batch["metadata"][row]["title"] == f"Clip {CLIPS[key].number}"
            if kind == "audio":
                length = int(batch["num_frames"][row])
                assert np.array_equal(np.asarray(batch["audio"][row, :, :length]), CLIPS[key].audio())


@pytest.mark.parametrize("kind", KINDS)
@EVERYWHERE
def test_by_default_it_is_an_error_that_names_shard_key_reason_and_the_other_choices(folders, place, kind, way):
    with pytest.raises(SampleError) as caught:
        batches(folders[place], kind, "raise", **way)
    key = next(key for key in PLACES[place] if repr(key) in str(caught.value))
    for words in ("latent_train_0000_", ".tar", f"reason of {key}", "on_missing_latents", '"skip"', '"zeros"'):
        assert words in str(caught.value)


def test_a_choice_that_is_not_known_is_refused(folders):
    with pytest.raises(
        ConfigError, match="on_missing_latents 'ignore' is not known: expected one of raise, skip, zero"
    ):
        dataset(folders["first"], "audio", "ignore")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batching", ["fixed", "length_buckets", FrameBudget(8000, batch_multiple=2)])
@pytest.mark.parametrize("choice", ["skip", "zeros"])
def test_every_rank_gets_as_many_batches_of_the_same_size(folders, choice, kind, batching):
    settings = {"batching": batching, "batch_size": 2}
    if kind != "audio" and isinstance(batching, FrameBudget):
        settings["batching"] = FrameBudget(80, batch_multiple=2)
    shapes, keys = [], []
    for rank in range(2):
        found = batches(folders["middle"], kind, choice, world=World(rank, 2), **settings)
        shapes.append([len(batch["keys"]) for batch in found])
        keys += [key for batch in found for key in batch["keys"] if key]
    assert shapes[0] == shapes[1]
    lost = set(PLACES["middle"]) if choice == "skip" else set()
    assert sorted(keys) == sorted(set(KEYS) - lost)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    write(folder, [])
    return folder


@pytest.mark.parametrize(
    ("crop", "way"),
    [
        *(({"crop_frames": 200}, way) for way in WAYS),
        *(({"crop_seconds": 0.025}, way) for way in ("threads", "one by one")),
    ],
    ids=str,
)
@pytest.mark.parametrize("choice", ["skip", "zeros"])
def test_crops_of_the_other_samples_are_where_they_are_without_it(folders, sound, choice, crop, way):
    places = {}
    for folder in (sound, folders["one of two"]):
        for batch in batches(folder, "audio", choice, **crop, **WAYS[way]):
            for row, key in enumerate(batch["keys"]):
                if key and key not in PLACES["one of two"]:
                    assert int(batch["encoder_length"][row]) == 2
                    found = int(batch["frame_offset"][row]), int(batch["encoder_offset"][row])
                    assert places.setdefault(key, found) == found
    assert len(places) == 12
    assert len(set(places.values())) > 2


@pytest.mark.parametrize("way", ["threads", "one by one"])
def test_a_crop_of_a_sample_without_its_only_latents_moves(folders, way):
    lost = PLACES["one of two"]
    found = batches(folders["one of two"], "audio", "zeros", crop_frames=200, **WAYS[way])
    pairs = [pair for batch in found for pair in zip(batch["keys"], batch["frame_offset"].tolist(), strict=True)]
    assert len({offset for key, offset in pairs if key in lost}) > 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["threads", "one by one"])
def test_a_batch_of_nothing_else_has_the_fields_and_widths_of_others(folders, kind, way):
    first, *_, last = batches(folders["all of the first shards"], kind, "skip", shuffle=False, **WAYS[way])
    assert first["is_padding"].all()
    assert not last["is_padding"].any()
    assert set(first) == set(last)
    assert (first["encoder_hidden"].shape[::2], first["encoder_hidden"].dtype) == ((4, WIDTH), torch.float16)


@pytest.mark.parametrize("choice", ["skip", "zeros"])
@pytest.mark.parametrize("crop", [{"crop_frames": 2}, {"crop_seconds": 0.025}])
def test_latents_alone_are_cropped_beside_it(folders, choice, crop):
    plain = batches(folders["middle"], "latents/crepe", choice, **crop)
    slow = batches(folders["middle"], "latents/crepe", choice, **crop, transform=lambda sample: sample)
    for one, two in zip(plain, slow, strict=True):
        assert one["encoder_hidden"].shape == (4, 2, WIDTH)
        for name in ("encoder_hidden", "encoder_length", "encoder_offset", "is_padding"):
            assert torch.equal(one[name], two[name]), name
        assert one["keys"] == two["keys"]


@pytest.mark.parametrize("choice", ["skip", "zeros"])
def test_batches_with_such_samples_are_still_copied_whole(folders, choice, monkeypatch):
    copied, copy = [], CopiedBatch._copied
    monkeypatch.setattr(CopiedBatch, "_copied", lambda self: copied.append(copy(self)) or copied[-1])
    assert len(batches(folders["middle"], "latents/crepe", choice)) == 6
    assert [batch is not None for batch in copied] == [True] * 6


def test_a_shard_without_any_latents_does_not_slow_the_others_down(folders, monkeypatch):
    copied, copy = [], CopiedBatch._copied
    monkeypatch.setattr(CopiedBatch, "_copied", lambda self: copied.append(copy(self)) or copied[-1])
    found = batches(folders["all of a shard"], "latents/crepe", "skip", batch_size=3, shuffle=False)
    assert len(found) == 8
    assert [batch is not None for batch in copied] == [True] * 6


@pytest.mark.medium
@pytest.mark.parametrize("choice", ["skip", "zeros"])
def test_of_several_joined_folders_any_may_lack_it(tmp_path, choice):
    audio = write(tmp_path, KEYS[:2])
    write(tmp_path, KEYS[1:3], "slow", audio, 2 * LATENT_HOP)
    write(tmp_path, KEYS[5:6], "vector", audio, 10**6)
    names = ("crepe", "slow", "vector")
    joined = StreamingDataset(
        remote=f"{tmp_path}/audio",
        latents=[f"{tmp_path}/latents/{name}" for name in names],
        batch_size=4,
        shuffle=True,
        crop_frames=200,
        on_missing_latents=choice,
    )
    lengths = {}
    for batch in StreamingDataLoader(joined):
        for row, key in enumerate(batch["keys"]):
            if key:
                lengths[key] = [int(batch[f"encoder_length_{name}"][row]) for name in names]
                is_timed = any(lengths[key][:2])
                assert not is_timed or int(batch["frame_offset"][row]) % LATENT_HOP == 0
    whole = [2, 1, 1]
    zeros = {KEYS[0]: [0, 1, 1], KEYS[1]: [0, 0, 1], KEYS[2]: [2, 0, 1], KEYS[5]: [2, 1, 0]}
    if choice == "zeros":
        assert lengths == dict.fromkeys(KEYS, whole) | zeros
    else:
        assert lengths == {key: whole for key in KEYS if key not in zeros}


@pytest.mark.parametrize("kind", KINDS)
def test_one_sample_by_its_number(folders, kind):
    for choice in ("raise", "skip"):
        with pytest.raises(SampleError, match=f"reason of {KEYS[2]}"):
            dataset(folders["middle"], kind, choice)[2]
    sample = dataset(folders["middle"], kind, "zeros")[2]
    assert sample["__key__"] == KEYS[2]
    assert (tuple(sample["encoder_hidden"].shape), sample["encoder_length"]) == ((0, WIDTH), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_one_by_one_hold_padding_where_one_is_skipped(folders, kind):
    samples = list(dataset(folders["middle"], kind, "skip", batch_size=1))
    assert len(samples) == 24
    assert sum(sample.get("is_padding", False) for sample in samples) == 2
    assert len({tuple(sorted(set(sample) - {"is_padding"})) for sample in samples}) == 1


def test_what_is_skipped_so_counts_for_no_limit(folders):
    loader = StreamingDataLoader(
        dataset(folders["one of two"], "audio", "skip", on_bad_sample="skip", max_bad_samples=0)
    )
    assert sum(batch["is_padding"].sum().item() for batch in loader) == 12
    assert loader.stats.num_bad_samples == 0


def test_a_run_goes_on_from_its_state_in_the_middle(folders):
    whole = batches(folders["one of two"], "audio", "skip")
    loader = StreamingDataLoader(dataset(folders["one of two"], "audio", "skip"))
    running = iter(loader)
    for _ in range(2):
        next(running)
    state = loader.state_dict()
    running.close()
    resumed = StreamingDataLoader(dataset(folders["one of two"], "audio", "skip"))
    resumed.load_state_dict(state)
    assert [batch["keys"] for batch in resumed] == [batch["keys"] for batch in whole[2:]]


@pytest.mark.parametrize("place", ["middle", "all of a shard"])
@pytest.mark.parametrize("has_indexes", [True, False])
def test_tars_that_were_copied_somewhere_else_say_it_too(folders, tmp_path, place, has_indexes):
    for path in (folders[place] / "latents/crepe").glob("*"):
        if path.suffix == ".tar" or (has_indexes and path.suffix == ".idx"):
            shutil.copy(path, tmp_path)
    with pytest.raises(SampleError, match=r"were rejected when they were made: .*\"zeros\""):
        list(StreamingDataLoader(StreamingDataset(remote=f"{tmp_path}/*.tar", batch_size=4)))
    found = list(StreamingDataLoader(StreamingDataset(remote=tmp_path, batch_size=4, on_missing_latents="zeros")))
    empty = [k for b in found for k, n in zip(b["keys"], b["encoder_length"].tolist(), strict=True) if not n]
    assert sorted(empty) == PLACES[place]
