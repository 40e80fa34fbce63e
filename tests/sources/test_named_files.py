"""Files that a corpus names: patterns, folders, and the paths in a listing."""

import os

import polars as pl
import pytest

from headrace.catalog.tables.metadata_files import in_memory, open_metadata
from headrace.errors import ConfigError
from headrace.sources.kinds.nemo import _manifests
from headrace.sources.named_files import base_of, files_in, files_of, joined, root_of, stamp_of_file, stamps_of_files


@pytest.fixture
def folder(tmp_path):
    for name in ("a.json", "b.json", "c.txt", ".hidden.json", "deep/d.json", "x,y.json", "brace{1}.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("", ["a.json", "b.json", "brace{1}.json", "x,y.json"]),
        ("a.json", ["a.json"]),
        ("c.txt", ["c.txt"]),
        ("x,y.json", ["x,y.json"]),
        ("brace{1}.json", ["brace{1}.json"]),
        ("*.json", ["a.json", "b.json", "brace{1}.json", "x,y.json"]),
        ("[ab].json", ["a.json", "b.json"]),
        ("{a,deep/d}.json", ["a.json", "deep/d.json"]),
        ("deep", ["deep/d.json"]),
    ],
)
def test_a_file_a_folder_and_patterns_name_files(folder, uri, expected):
    found = files_of(f"{folder}/{uri}", (".json",))
    assert [os.path.relpath(file, folder) for file in found] == expected


def test_several_names_have_commas_between_them_and_each_file_comes_once(folder):
    found = files_of(f"{folder}/b.json,{folder}/deep,{folder}/b.json", (".json",))
    assert found == [f"{folder}/b.json", f"{folder}/deep/d.json"]


@pytest.mark.parametrize("uri", ["gone.json", "gone", "{a,gone}.json", "*.wav", "deep/x"])
def test_a_name_of_nothing_is_an_error(folder, uri):
    with pytest.raises(ConfigError, match="there is no"):
        files_of(f"{folder}/{uri}", (".json",))


@pytest.mark.parametrize(
    ("uri", "files", "expected"),
    [
        ("/d", ["/d/a/x.json", "/d/b/y.json"], "/d"),
        ("/d/a/x.json", ["/d/a/x.json"], "/d/a"),
        ("/d/*/m.json", ["/d/one/m.json", "/d/ones/m.json"], "/d"),
        ("s3://b/d/*.json", ["s3://b/d/x.json"], "s3://b/d"),
    ],
)
def test_the_root_is_the_folder_that_is_named_or_that_of_all_files(uri, files, expected):
    assert root_of(uri, files) == expected


def test_a_base_is_the_nearest_folder_above_that_has_the_file(folder):
    assert base_of(f"{folder}/deep/er", "a.json") == str(folder)
    assert base_of(f"{folder}/deep", "d.json") == f"{folder}/deep"
    assert base_of(str(folder), "gone.wav") is None


def test_stamps_are_those_of_regular_files(folder):
    os.mkfifo(folder / "pipe")
    odd = [f"{folder}/{name}" for name in ("gone", "deep", "pipe", "nul\0")]
    assert [stamp_of_file(file) for file in odd] == [None] * 4
    assert set(stamps_of_files([*odd, f"{folder}/a.json"]).values()) == {None, stamp_of_file(f"{folder}/a.json")}
    assert files_in(f"{folder}/gone") == files_in(f"{folder}/a.json") == []


def test_names_are_joined_to_folders_of_any_place():
    assert joined("/d", "/x/../y") == "/y"
    assert joined("s3://b/d", "s3://c/x") == "s3://c/x"
    assert joined("s3://b/d/e", "../x") == "s3://b/d/x"


@pytest.mark.parametrize("odd", ["a,b", "x{0..1}", "y{a,b}", "z[ab]", "st*r?"])
def test_a_pattern_below_a_folder_with_an_odd_name_is_one_of_its_files(tmp_path, odd):
    folder = tmp_path / odd
    folder.mkdir()
    for name in ("m0.json", "m1.json", "other.jsonl"):
        (folder / name).write_text("{}")
    both = [f"{folder}/m0.json", f"{folder}/m1.json"]
    for pattern in ("m{0..1}.json", "{m0.json,m1.json}", "m*.json", "m[01].json"):
        assert files_of(f"{folder}/{pattern}", (".json",)) == both
    assert files_of(str(folder), (".json",)) == both
    assert _manifests(f"{folder}/m_OP_0..1_CL_.json") == both


def test_a_parquet_table_may_be_below_a_folder_with_brackets(tmp_path):
    (tmp_path / "z[ab]").mkdir()
    file = tmp_path / "z[ab]/t.parquet"
    pl.DataFrame({"path": ["a.wav"]}).write_parquet(file)
    assert in_memory(open_metadata(file)).rows() == [("a.wav",)]
