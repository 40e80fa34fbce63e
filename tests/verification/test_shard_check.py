"""A whole shard is read and compared with its name, its index and its list."""

from dataclasses import replace

import polars as pl
import pytest

from headrace.audio import AudioFormat
from headrace.config.partitioning import Partitioning
from headrace.format.tars.member_names import KeyAt
from headrace.locate import locate
from headrace.locate.shard_list import shards_of
from headrace.verification.shard_check import Depth, check_shard
from tests.support.builds import Project


@pytest.fixture
def shard(output):
    return shards_of(locate(str(output / "audio")))[0]


def checked(shard, depth=None):
    return check_shard(shard, depth or Depth(), KeyAt.FIRST_DOT)


def faults(shard):
    found = checked(shard).faults
    assert all(fault.where == shard.url for fault in found)
    return [fault.what for fault in found]


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_sound_shard_has_no_faults_and_some_samples_are_decoded(shard, output):
    found = checked(shard, Depth(samples_per_shard=3))
    assert (found.faults, found.num_samples, found.num_decoded) == ((), 5, 3)
    assert found.num_bytes == (output / "audio" / shard.name).stat().st_size
    assert checked(shard, Depth(samples_per_shard=99)).num_decoded == 5


def test_changed_bytes_are_found_by_the_digest_in_the_name(shard, output):
    flip(output / "audio" / shard.name, 700)
    assert any("the name says" in fault for fault in faults(shard))


def test_a_list_that_counts_other_samples_is_a_fault(shard):
    assert faults(replace(shard, num_samples=6)) == ["5 samples in the tar, its list says 6"]


def test_a_missing_or_damaged_index_is_a_fault_of_a_built_shard(shard, output):
    index = (output / "audio" / shard.name).with_suffix(".idx")
    flip(index, len(index.read_bytes()) // 2)
    assert len(faults(shard)) == 1
    index.unlink()
    assert faults(shard) == ["its .idx is missing, or is another tool's file, which has to be moved away; build again"]


def test_a_shard_that_is_gone_is_a_fault(shard, output):
    (output / "audio" / shard.name).unlink()
    (fault,) = faults(shard)
    assert shard.name in fault


def test_a_file_of_columns_is_checked_as_such(columns_files):
    found = checked(columns_files[0])
    assert (found.num_samples, found.num_decoded, found.faults) == (5, 0, ())


@pytest.mark.medium
@pytest.mark.parametrize(
    ("asked", "columns"),
    [
        ({}, {}),
        ({"samples": "rows", "metadata": "t.csv"}, {}),
        ({"samples": "rows", "metadata": "t.csv"}, {"start": [0.0, 0.0, 0.01], "end": [0.02, 0.02, 0.04]}),
        ({"samples": "rows", "metadata": "t.csv", "columns": {"key": "id"}}, {"id": ["a", "b", "c"]}),
    ],
)
def test_a_shard_is_sound_if_some_of_its_samples_were_rejected_when_they_were_decoded(tmp_path, asked, columns):
    one_shard = Partitioning({"train": 1}, {}, 4)
    project = Project(tmp_path, layout=one_shard, audio=AudioFormat(num_channels=2), asked=asked)
    project.put("plain.wav")
    project.put("three.wav", channels=3)
    paths = ["plain.wav", "three.wav", "three.wav"][: None if columns else 2]
    project.metadata = pl.DataFrame({"path": paths, **columns})
    refused = [one for build in project.build().partitions.values() for one in build.manifest.manifest.refused]
    assert {one.path for one in refused} == {"three.wav"}
    (shard,) = shards_of(locate(project.shards.uri))
    assert (shard.num_samples, faults(shard)) == (1, [])
