"""A file of columns is compared with its name, its list, and the keys of its audio shard."""

from dataclasses import replace

import pytest

from headrace.locate import locate
from headrace.locate.shard_list import shards_of
from headrace.verification.columns_check import check_columns


@pytest.fixture
def audio(output):
    return shards_of(locate(str(output / "audio")))


def test_a_sound_file_has_no_faults(columns_files, audio, output):
    for file, shard in zip(columns_files, audio, strict=True):
        num_bytes = (output / "columns/mine" / file.name).stat().st_size
        assert check_columns(replace(file, fits=shard)) == (shard.num_samples, num_bytes, [])


def test_rows_of_another_shard_are_a_fault(columns_files, audio):
    _, _, faults = check_columns(replace(columns_files[0], fits=audio[1]))
    assert faults == [f"its rows are not those of the samples of {audio[1].name}; remove the file, and build again"]


def test_another_number_of_rows_than_its_list_says_is_a_fault(columns_files):
    assert check_columns(replace(columns_files[0], num_samples=7))[2] == ["5 rows, its list says 7"]


def test_a_file_under_the_name_of_another_one_is_a_fault(columns_files, output):
    folder = output / "columns/mine"
    (folder / columns_files[0].name).write_bytes((folder / columns_files[1].name).read_bytes())
    faults = check_columns(columns_files[0])[2]
    assert any("the name says" in fault for fault in faults)


def test_a_cut_file_is_a_fault_and_has_no_rows(columns_files, output):
    path = output / "columns/mine" / columns_files[0].name
    path.write_bytes(path.read_bytes()[:-10])
    num_rows, num_bytes, faults = check_columns(columns_files[0])
    assert (num_rows, num_bytes, len(faults)) == (0, 0, 1)
