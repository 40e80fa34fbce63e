"""Which settings plan shards from scratch, which rewrite them in place, and which leave them unchanged."""

from dataclasses import replace

import pytest

from headrace.config.partitioning import Partitioning
from headrace.stores.storage import LocalStorage
from tests.support.builds import PLAIN, Project, check, twenty_clips

pytestmark = pytest.mark.medium


@pytest.fixture
def project(tmp_path):
    return twenty_clips(tmp_path)


def test_other_audio_settings_rewrite_every_shard_and_move_no_sample(project):
    before = project.build()
    project.audio = replace(PLAIN, compression_level=0)
    after = check(project, project.build())
    assert not set(before.contents) & set(after.contents)
    assert sorted(before.contents.values()) == sorted(after.contents.values())


def test_another_shard_size_gives_the_result_of_an_empty_output(project, tmp_path):
    project.build()
    project.layout = replace(project.layout, samples_per_shard=3)
    project.build()
    fresh = Project(tmp_path, output=LocalStorage(tmp_path / "fresh"), layout=project.layout)
    assert set(fresh.build().contents) == set(project.build().contents)


def test_settings_that_give_the_same_bytes_leave_shards_and_indexes_unchanged(project):
    """The recordings have 16 bits."""
    project.audio = replace(project.audio, bits_per_sample=None)
    first = project.build()
    before = project.files()
    project.audio = replace(project.audio, bits_per_sample=16)
    second = project.build()
    assert set(second.contents) == set(first.contents)
    assert {path: blob for path, blob in project.files().items() if path in before} == before
    assert project.build().written == []
    project.remove("clip00.wav")
    assert len(project.build().written) == 1
    project.audio = replace(project.audio, bits_per_sample=None)
    project.remove("clip01.wav")
    assert len(project.build().written) <= 2  # the two shards with removed recordings


def test_a_raised_reshuffle_gives_the_result_of_an_empty_output_and_then_changes_nothing(project, tmp_path):
    project.layout = Partitioning({"train": 1.0}, {}, 4)
    project.build()
    for number in range(1, 14, 2):
        project.remove(f"clip{number:02d}.wav")
    assert [len(keys) for keys in project.build().contents.values()] != [4, 4, 4, 1]
    project.reshuffle = 1
    result = check(project, project.build())
    assert [len(keys) for keys in result.contents.values()] == [4, 4, 4, 1]
    fresh = Project(tmp_path, output=LocalStorage(tmp_path / "fresh"), layout=project.layout)
    assert set(fresh.build().contents) == set(result.contents)
    assert project.build().written == []
    project.put("more.wav")
    assert len(project.build().written) == 1


def test_a_return_to_an_earlier_shard_size_confuses_no_sequence_numbers(project):
    """Shards of the earlier layout still exist, and their old numbers would clash with new ones."""
    project.layout = Partitioning({"train": 1.0}, {}, 4)
    project.build()
    for number in range(6):
        project.remove(f"clip{number:02d}.wav")
    project.build()
    project.layout = replace(project.layout, samples_per_shard=5)
    project.build()
    project.layout = replace(project.layout, samples_per_shard=4)
    result = check(project, project.build())
    numbers = [name.split("-")[0] for name in result.contents]
    assert len(set(numbers)) == len(numbers)
    project.put("more.wav")
    assert sum(len(keys) for keys in check(project, project.build()).contents.values()) == 15
