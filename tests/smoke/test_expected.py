"""The samples that a loader must return are those of the indexes, without rejected ones."""

from dataclasses import replace

import numpy as np

from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.smoke.expected import read_expected
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset


def expected(folder):
    storage = LocalStorage(folder)
    return read_expected(storage, read_table(storage, read_snapshot(storage).snapshot))


def test_every_sample_is_found_by_its_key_with_its_facts(tmp_path):
    samples = [*clips(7), *clips(2, first=7, num_channels=2)]
    write_dataset(tmp_path, {"train": samples})
    found = expected(tmp_path / "audio")
    assert len(found) == 9
    for place, clip in enumerate(samples):
        at = found.find(clip.key)
        facts = (found.shard[at], found.num_frames[at], found.width[at], found.sample_rate_hz[at], found.is_flac[at])
        assert facts == (place // 5, clip.num_frames, clip.num_channels, 8000, True)
    assert found.find("another") is None
    assert not found.is_rejected(samples[0].key)
    assert found.num_indexed(2) == [5, 4]
    assert np.array_equal(found.hashes, np.sort(found.hashes))


def test_samples_that_cannot_share_a_batch_are_mixed(tmp_path):
    write_dataset(tmp_path / "same", {"train": clips(3)})
    write_dataset(tmp_path / "mixed", {"train": [*clips(3), *clips(1, first=3, num_channels=2)]})
    assert not expected(tmp_path / "same/audio").is_mixed
    assert expected(tmp_path / "mixed/audio").is_mixed


def test_samples_whose_latents_were_rejected_are_counted_and_not_expected(tmp_path):
    samples = clips(6)
    samples[2] = replace(samples[2], rejection="non_finite")
    write_dataset(tmp_path, {"train": samples}, latents=True)
    found = expected(tmp_path / "latents/crepe")
    assert len(found) == 5
    assert found.find(samples[2].key) is None
    assert found.is_rejected(samples[2].key)
    assert not found.is_rejected(samples[1].key)
    assert found.num_indexed(2) == [5, 1]
    at = found.find(samples[0].key)
    assert (found.num_frames[at], found.width[at], found.sample_rate_hz[at]) == (len(samples[0].hidden()), 8, 0)


def test_without_shards_nothing_is_expected():
    class Empty:
        def names(self):
            return []

    assert len(read_expected(None, Empty())) == 0
