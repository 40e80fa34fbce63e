"""Audio with its latents: which snapshots belong together, now and when a state is resumed."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from headrace import StreamingDataset
from headrace.errors import ConfigError, NotFoundError, StateError
from tests.streaming.corpus import clips, write_dataset, write_latents

SAMPLES = clips(20)
OTHERS = [replace(clip, encoder=1) for clip in SAMPLES]


def joined(folder, **more):
    return StreamingDataset(
        remote=f"{folder}/audio", latents=[f"{folder}/latents/crepe"], batch_size=4, shuffle=True, **more
    )


def arrived(dataset, count=None):
    """Keys and latents of the next samples."""
    samples = iter(dataset)
    found = [next(samples) for _ in range(count)] if count else list(samples)
    return [(sample["__key__"], sample["encoder_hidden"].numpy()) for sample in found]


def are_equal(one, two):
    return len(one) == len(two) and all(
        a == b and np.array_equal(x, y) for (a, x), (b, y) in zip(one, two, strict=True)
    )


def saved(folder, count=8):
    """What an uninterrupted run gives after `count` samples, and the state there, as a file would give it back."""
    whole = arrived(joined(folder))
    stopped = joined(folder)
    arrived(stopped, count)
    return whole[count:], json.loads(json.dumps(stopped.state_dict()))


def test_audio_comes_at_the_newest_snapshot_that_all_latents_have(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    write_dataset(tmp_path, {"train": clips(30)})
    assert joined(tmp_path).size == 20
    assert StreamingDataset(remote=f"{tmp_path}/audio").size == 30
    with pytest.raises(NotFoundError, match=r"snapshot 2 lacks latents in .*latents/crepe; build them"):
        joined(tmp_path, snapshot=2)


def test_latents_of_no_audio_at_all_are_refused_in_words(tmp_path):
    write_dataset(tmp_path / "one", {"train": SAMPLES}, latents=True)
    write_dataset(tmp_path / "two", {"train": clips(30)})
    write_dataset(tmp_path / "two", {"train": clips(40)})
    latents = [f"{tmp_path}/one/latents/crepe"]
    with pytest.raises(NotFoundError, match=r"two/audio: each of the 2 snapshots lacks latents in .*one/latents/crepe"):
        StreamingDataset(remote=f"{tmp_path}/two/audio", latents=latents)
    with pytest.raises(NotFoundError, match="no snapshot of audio yet"):
        StreamingDataset(remote=f"{tmp_path}", latents=latents)


def test_a_state_goes_on_with_its_latents_when_others_were_computed_of_the_same_audio(tmp_path):
    audio = write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    rest, state = saved(tmp_path)
    assert state["streams"][0]["latents_snapshots"] == [1]
    write_latents(tmp_path, {"train": OTHERS}, audio)
    resumed = joined(tmp_path)
    assert np.array_equal(resumed.get_item(0)["encoder_hidden"].numpy(), OTHERS[0].hidden())
    resumed.load_state_dict(state)
    assert are_equal(arrived(resumed), rest)


def test_a_state_goes_on_with_its_audio_and_latents_when_both_were_committed_anew(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    rest, state = saved(tmp_path)
    write_dataset(tmp_path, {"train": clips(30)}, latents=True)
    resumed = joined(tmp_path)
    assert resumed.size == 30
    resumed.load_state_dict(state)
    assert are_equal(arrived(resumed), rest)


def test_a_state_whose_latents_are_gone_is_refused_by_their_number(tmp_path):
    audio = write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    _, state = saved(tmp_path)
    write_latents(tmp_path, {"train": OTHERS}, audio)
    (tmp_path / "latents/crepe/snapshots/00000001.json").unlink()
    with pytest.raises(StateError, match=r"snapshot 1 with latents at 1 .*which is gone .*crepe"):
        joined(tmp_path).load_state_dict(state)


@pytest.mark.parametrize("names", [[], ["crepe", "other"]])
def test_a_state_is_refused_with_fewer_or_more_latents(tmp_path, names):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    shutil.copytree(tmp_path / "latents/crepe", tmp_path / "latents/other")
    _, state = saved(tmp_path)
    latents = [f"{tmp_path}/latents/{name}" for name in names]
    other = StreamingDataset(remote=f"{tmp_path}/audio", latents=latents, batch_size=4, shuffle=True)
    with pytest.raises(
        StateError,
        match=r"snapshot 1 with latents at 1 .*but now it reads .*snapshot 1 .*as many folders of latents as then, 1",
    ):
        other.load_state_dict(state)


def test_latents_that_a_sample_could_not_tell_apart_are_refused(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    shutil.copytree(tmp_path / "latents/crepe", tmp_path / "more/crepe")
    with pytest.raises(ConfigError, match="two folders of latents are called 'crepe'"):
        StreamingDataset(
            remote=f"{tmp_path}/audio", latents=[f"{tmp_path}/{where}/crepe" for where in ("latents", "more")]
        )


def test_a_state_without_latents_does_not_speak_of_them(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES})
    assert set(StreamingDataset(remote=f"{tmp_path}/audio").state_dict()["streams"][0]) == {
        "name", "split", "snapshot", "fingerprint", "position",
    }  # fmt: skip
