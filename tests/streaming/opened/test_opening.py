"""Streams of a dataset are opened together: their samples and shards by number, and settings that do not fit."""

from pathlib import Path

import pytest

from headrace import Stream, StreamingDataset
from headrace.errors import ConfigError
from headrace.streaming.opened.opening import rooted
from headrace.streaming.selection import Selection


@pytest.fixture
def streams(dataset_folder):
    """53 samples for training, then 7 for testing."""
    named = [Stream(f"{dataset_folder}/audio", split=split) for split in ("train", "test")]
    return StreamingDataset(streams=named, batch_size=2)._streams


def test_samples_are_found_by_their_number_over_all_streams(streams, corpus):
    assert (streams.num_samples, streams.num_shards) == (60, 13)
    assert [streams.row(number).primary.key for number in (0, 52, -60)] == [corpus[number].key for number in (0, 52, 0)]
    assert streams.row(53).primary.key == "clip00200"
    for number in (60, -61):
        with pytest.raises(IndexError, match=f"sample {number}: there are 60, from 0 to 59"):
            streams.row(number)


def test_shards_are_found_by_their_number_over_all_streams(streams):
    access, shard = streams.shard(12)
    assert (shard, access.name(shard)[:16]) == (1, "test_0000_000001")
    assert streams.shard(10)[1] == 10
    with pytest.raises(IndexError, match="shard 13: there are 13"):
        streams.shard(13)


def test_the_mixture_and_the_states_have_the_names_of_the_streams(streams):
    assert [stream.name for stream in streams.mixture(None).streams] == list(streams.names)
    assert [state.split for state in streams.states()] == ["train", "test"]


def test_streams_that_join_other_latents_are_an_error_that_names_them(dataset_folder):
    named = [
        Stream(f"{dataset_folder}/audio", latents=[f"{dataset_folder}/latents/crepe"], name="one"),
        Stream(f"{dataset_folder}/audio", name="two"),
    ]
    with pytest.raises(ConfigError, match=r"these differ \(one: .*/latents/crepe; two: none\)"):
        StreamingDataset(streams=named)


def test_folders_are_rooted_and_names_stay():
    found = Selection(view="views/loud", latents=["mel", "x/mel"], columns=["s3://b/columns/c"])
    assert rooted(found) == Selection(
        view=str(Path.cwd() / "views/loud"), latents=["mel", str(Path.cwd() / "x/mel")], columns=["s3://b/columns/c"]
    )
