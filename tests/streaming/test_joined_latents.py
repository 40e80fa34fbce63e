"""Audio with its latents: which snapshots belong together, now and when a state is resumed."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from headrace import Stream, StreamingDataset
from headrace.errors import ConfigError, NoShardsError, NotFoundError, StateError
from tests.support.streaming.corpus import clips, write_dataset, write_latents

pytestmark = pytest.mark.medium

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
    """Rest of an uninterrupted run after `count` samples, and the state there, as a file would give it back."""
    whole = arrived(joined(folder))
    stopped = joined(folder)
    arrived(stopped, count)
    return whole[count:], json.loads(json.dumps(stopped.state_dict()))


def test_audio_comes_at_the_newest_snapshot_that_all_latents_have(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    write_dataset(tmp_path, {"train": clips(30)})
    assert joined(tmp_path).size == 20
    assert StreamingDataset(remote=f"{tmp_path}/audio").size == 30
    with pytest.raises(NotFoundError, match=r"snapshot 2 has no latents in .*/crepe has those of snapshot 1\. B"):
        joined(tmp_path, snapshot=2)


def test_latents_without_any_audio_are_rejected_with_a_message(tmp_path):
    write_dataset(tmp_path / "one", {"train": SAMPLES}, latents=True)
    write_dataset(tmp_path / "two", {"train": clips(30)})
    write_dataset(tmp_path / "two", {"train": clips(40)})
    latents = [f"{tmp_path}/one/latents/crepe"]
    with pytest.raises(
        NotFoundError, match=r"two/audio: no snapshot .* has latents in .*/crepe belongs to other audio"
    ):
        StreamingDataset(remote=f"{tmp_path}/two/audio", latents=latents)
    with pytest.raises(NotFoundError, match=r"no snapshot and no shards .* there; it is a folder of folders of tars"):
        StreamingDataset(remote=f"{tmp_path}", latents=latents)


def test_only_the_latents_that_a_snapshot_lacks_are_said_to_be_missing(tmp_path):
    first = write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    second = write_dataset(tmp_path, {"train": clips(30)})
    write_latents(tmp_path, {"train": clips(30)}, second, name="mel")
    latents = [f"{tmp_path}/latents/crepe", f"{tmp_path}/latents/mel"]
    with pytest.raises(NotFoundError) as caught:
        StreamingDataset(remote=f"{tmp_path}/audio", latents=latents, snapshot=2)
    said = str(caught.value)
    assert f"snapshot 2 has no latents in {latents[0]}: {latents[0]} has those of snapshot 1. " in said
    assert "mel" not in said
    with pytest.raises(NotFoundError) as caught:
        StreamingDataset(remote=f"{tmp_path}/audio", latents=latents)
    assert (
        f"no snapshot of the audio has latents in all of {latents[0]}, {latents[1]}: {latents[0]} has those of "
        f"snapshot 1; {latents[1]} has those of snapshot 2. "
    ) in str(caught.value)
    write_latents(tmp_path, {"train": SAMPLES}, first, name="mel")
    assert StreamingDataset(remote=f"{tmp_path}/audio", latents=latents).size == len(SAMPLES)


def test_latents_are_named_as_columns_are(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    named = [StreamingDataset(remote=tmp_path / part, latents=["crepe"]) for part in ("", "audio")]
    assert all("encoder_hidden" in dataset[0] for dataset in named)
    with pytest.raises(NoShardsError, match=r"latents/cripe is not there.*; there are crepe$"):
        StreamingDataset(remote=tmp_path / "audio", latents=["cripe"])


def test_streams_that_join_other_latents_are_named_with_them(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    streams = [
        Stream(f"{tmp_path}/audio", latents=[f"{tmp_path}/latents/crepe"], name="one"),
        Stream(f"{tmp_path}/audio", name="two"),
    ]
    with pytest.raises(ConfigError, match=r"these differ \(one: .*/latents/crepe; two: none\)"):
        StreamingDataset(streams=streams)


def test_audio_in_the_place_of_latents_is_called_audio(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES})
    with pytest.raises(NotFoundError, match=r"/audio holds no latents but audio: name a folder latents/NAME"):
        StreamingDataset(remote=f"{tmp_path}/audio", latents=[f"{tmp_path}/audio"])


def test_a_state_goes_on_with_its_latents_when_others_were_computed_of_the_same_audio(tmp_path):
    audio = write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    rest, state = saved(tmp_path)
    assert state["streams"][0]["latents_snapshots"] == [1]
    write_latents(tmp_path, {"train": OTHERS}, audio)
    resumed = joined(tmp_path)
    assert np.array_equal(resumed.get_item(0)["encoder_hidden"].numpy(), OTHERS[0].hidden())
    resumed.load_state_dict(state)
    assert are_equal(arrived(resumed), rest)


def test_a_state_goes_on_with_its_audio_and_latents_when_both_were_committed_again(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    rest, state = saved(tmp_path)
    write_dataset(tmp_path, {"train": clips(30)}, latents=True)
    resumed = joined(tmp_path)
    assert resumed.size == 30
    resumed.load_state_dict(state)
    assert are_equal(arrived(resumed), rest)


def test_a_state_whose_latents_are_gone_is_rejected_by_their_number(tmp_path):
    audio = write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    _, state = saved(tmp_path)
    write_latents(tmp_path, {"train": OTHERS}, audio)
    (tmp_path / "latents/crepe/snapshots/00000001.json").unlink()
    with pytest.raises(StateError, match=r"snapshot 1 with latents at 1 .*which is gone .*crepe"):
        joined(tmp_path).load_state_dict(state)


@pytest.mark.parametrize("names", [[], ["crepe", "other"]])
def test_a_state_is_rejected_with_fewer_or_more_latents(tmp_path, names):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    shutil.copytree(tmp_path / "latents/crepe", tmp_path / "latents/other")
    _, state = saved(tmp_path)
    latents = [f"{tmp_path}/latents/{name}" for name in names]
    other = StreamingDataset(remote=f"{tmp_path}/audio", latents=latents, batch_size=4, shuffle=True)
    with pytest.raises(
        StateError,
        match=r"snapshot 1 with latents at 1 .*but now it reads .*snapshot 1 .*join 1 folders of latents, as in",
    ):
        other.load_state_dict(state)


def test_latents_that_a_sample_could_not_distinguish_are_rejected(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES}, latents=True)
    shutil.copytree(tmp_path / "latents/crepe", tmp_path / "more/crepe")
    with pytest.raises(ConfigError, match="two folders of latents are called 'crepe'"):
        StreamingDataset(
            remote=f"{tmp_path}/audio", latents=[f"{tmp_path}/{where}/crepe" for where in ("latents", "more")]
        )


def test_a_state_without_latents_does_not_speak_of_them(tmp_path):
    write_dataset(tmp_path, {"train": SAMPLES})
    assert set(StreamingDataset(remote=f"{tmp_path}/audio").state_dict()["streams"][0]) == {
        "name", "split", "snapshot", "fingerprint", "position", "remote",
    }  # fmt: skip
