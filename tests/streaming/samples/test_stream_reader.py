"""Rows of a stream: from numbers of samples to shards, with the latents that are joined by key."""

import numpy as np
import pytest

from headrace import StreamingDataset
from tests.support.streaming.corpus import Clip, clips, write_dataset


@pytest.fixture
def joined(dataset_folder):
    return StreamingDataset(
        remote=f"{dataset_folder}/audio", latents=[f"{dataset_folder}/latents/crepe"], split="train", batch_size=2
    ).reading.readers[0]


def test_rows_come_in_the_order_that_is_asked_for_with_their_latents(joined, corpus):
    wanted = [52, 3, 3, 17]
    rows = joined.rows(np.array(wanted), [10, 11, 12, 13], patient=False)
    assert [row.primary.key for row in rows] == [corpus[number].key for number in wanted]
    assert [row.joined[0].key for row in rows] == [corpus[number].key for number in wanted]
    assert [row.position for row in rows] == [10, 11, 12, 13]
    assert rows[0].joined[0].tensor.num_frames == len(corpus[52].hidden())


def test_lengths_and_rates_are_those_of_the_samples(joined, corpus):
    wanted = np.array([8, 52, 0])
    assert joined.lengths(wanted).tolist() == [corpus[number].num_frames for number in wanted]
    audio, latents = joined.rates(wanted)
    assert (audio.tolist(), latents.tolist()) == ([8000] * 3, [0.0] * 3)


def test_shards_are_named_once_in_the_order_of_use_with_those_of_their_latents(joined):
    found = [(access is joined.primary, shard) for access, shard in joined.shards_of(np.array([12, 0, 13]))]
    assert found == [(True, 2), (False, 2), (True, 0), (False, 0)]
    assert joined.shards_with_columns(np.array([12])) == []
    assert (joined.stored_samples(0), joined.stored_samples(10)) == (5, 3)


def test_only_streams_of_latents_alone_are_copied(joined, dataset_folder):
    assert joined.local_shards([0, 1]) is None
    for part, expected in (("latents/crepe", [1, 0]), ("audio", None)):
        reader = StreamingDataset(remote=f"{dataset_folder}/{part}", split="train", batch_size=2).reading.readers[0]
        found = reader.local_shards([1, 0])
        assert (found if found is None else list(found)) == expected


def test_a_sample_without_latents_says_why(tmp_path):
    write_dataset(tmp_path, {"train": [*clips(2), Clip(2, 400, rejection="overflow")]}, latents=True)
    reader = StreamingDataset(remote=f"{tmp_path}/latents/crepe", batch_size=2).reading.readers[0]
    rows = reader.rows(np.arange(3), range(3), patient=False)
    assert [bool(row.primary.rejection) for row in rows] == [False, False, True]
    assert reader.lengths(np.arange(3)).tolist()[2] == 0


def test_a_shard_that_is_missing_is_the_fault_of_its_samples_alone(tmp_path):
    write_dataset(tmp_path, {"train": clips(7)})
    reader = StreamingDataset(remote=f"{tmp_path}/audio", batch_size=2).reading.readers[0]
    next((tmp_path / "audio").glob("train_0000_000001*.tar")).unlink()
    rows = reader.rows(np.array([0, 6]), [0, 1], patient=False)
    assert [row.primary.fault is None for row in rows] == [True, False]
