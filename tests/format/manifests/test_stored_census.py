"""The counts of lengths in manifests: those of the shards, whatever was built and reused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.indexes.index import FRAME_RATE_NOTE
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.length_census import NUM_CELLS, cell_of
from headrace.format.manifests.manifests import newest_manifests
from headrace.format.manifests.stored_census import StoredCensus, census_of
from headrace.stores.storage import LocalStorage
from tests.support.builds import Project
from tests.support.latent_builds import Latents
from tests.support.streaming.corpus import clips, write_dataset


def check(storage):
    """Compare the counts of every manifest with the indexes of its shards. Returns the samples of each length."""
    found = {}
    for partition, newest in newest_manifests(storage).items():
        indexes = [read_index(storage, shard.name) for shard in newest.manifest.shards]
        assert newest.manifest.lengths == census_of(indexes)
        found[partition] = newest.manifest.lengths.census.counts.sum()
    return found


@pytest.mark.medium
def test_a_rebuild_counts_new_and_reused_shards(tmp_path):
    project = Project(tmp_path)
    for number in range(12):
        project.put(f"{number}.wav", num_frames=800 + 200 * number)
    project.build()
    assert sum(check(project.shards).values()) == 12
    project.put("3.wav", num_frames=7200)
    project.remove("5.wav")
    assert len(project.build().written) < 4
    counts = check(project.shards)
    assert sum(counts.values()) == 11
    rates = {found.manifest.lengths.rate_hz for found in newest_manifests(project.shards).values()}
    assert rates == {8000.0}


def test_a_partition_without_samples_has_empty_counts(tmp_path):
    project = Project(tmp_path)
    project.put("a.wav")
    project.build()
    assert 0 in check(project.shards).values()


@pytest.mark.medium
def test_latents_are_counted_in_their_own_frames(tmp_path):
    project = Project(tmp_path / "source")
    for number in range(6):
        project.put(f"{number}.wav", num_frames=1600 + 800 * number)
    project.build()
    built = Latents(tmp_path / "source/output")
    partition = max(newest_manifests(project.shards), key=lambda name: check(project.shards)[name])
    built.build(partition)
    counts = check(built.storage)
    assert counts == {partition: check(project.shards)[partition]}
    (found,) = newest_manifests(built.storage).values()
    assert 0 < found.manifest.lengths.rate_hz < 8000


@pytest.mark.medium
def test_rates_that_differ_are_not_named(tmp_path):
    project = Project(tmp_path)
    for number, rate in enumerate([8000, 16000] * 6):
        project.put(f"{number}.wav", rate=rate)
    project.build()
    check(project.shards)
    assert 0 in {found.manifest.lengths.rate_hz for found in newest_manifests(project.shards).values()}


@pytest.fixture
def index(tmp_path):
    write_dataset(tmp_path, {"train": clips(3)})
    storage = LocalStorage(tmp_path / "audio")
    (found,) = newest_manifests(storage).values()
    return read_index(storage, found.manifest.shards[0].name)


@pytest.mark.parametrize(("most", "count_bytes"), [(255, 1), (256, 2), (32_767, 2), (32_768, 4)])
def test_counts_take_as_few_bytes_as_they_need(index, most, count_bytes):
    many = replace(index, num_frames=np.full(most, 900), sample_rate_hz=np.full(most, 8000, np.int32))
    census = census_of([many])
    assert (census.count_bytes, census.census.counts.tolist()) == (count_bytes, [[most]])


def test_an_unknown_length_is_not_counted(index):
    assert census_of([index]) is not None
    assert census_of([replace(index, num_frames=np.array([300, -1, 300]))]) is None


@pytest.mark.parametrize(
    ("audio_hz", "latents_hz", "rate_hz"), [(8000, 50, 8000), (1, 50, 1), (0, 12.5, 12.5), (0, 0, 0)]
)
def test_the_rate_is_that_of_the_audio_or_else_of_the_latents(index, audio_hz, latents_hz, rate_hz):
    notes = {FRAME_RATE_NOTE: repr(latents_hz)}
    found = census_of([replace(index, sample_rate_hz=np.full(len(index), audio_hz, np.int32), notes=notes)])
    assert found.rate_hz == rate_hz


def _cell(length):
    """The formula of docs/format.md."""
    if length < 16:
        return length
    octave = length.bit_length() - 1
    return 16 * (octave - 4) + length // 2 ** (octave - 4)


@given(st.integers(0, 2**53 - 1))
def test_cells_are_those_of_the_format(length):
    assert cell_of(np.array([length])).tolist() == [_cell(length)]


def test_there_are_cells_for_all_lengths():
    assert _cell(2**62 - 1) + 1 == NUM_CELLS


def test_what_is_not_base64_is_not_passed_over(index):
    stored = census_of([index])
    assert stored.census.counts.sum() == 3
    with pytest.raises(ValueError, match="base64"):
        assert replace(stored, counts=f"!{stored.counts}").census


def test_no_shards_are_no_rows():
    found = census_of([])
    assert found == StoredCensus(0, 0, [], 1, "")
    assert found.census.counts.shape == (0, 0)
