"""The tars of a plain WebDataset are found by their names; no tar is opened."""

import json
import threading

import pytest

from headrace.errors import ConfigError, FormatError, NoShardsError, NotAFileError, NotFoundError
from headrace.format.tars.name_lists import name_of_tars
from headrace.locate import locate
from headrace.locate.tars import has_name, is_bucket_folder, tars_of_folder, tars_of_list, tars_of_pattern
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def folder(tmp_path):
    """A folder of tars that nobody opens."""
    for name in ("train-0.tar", "train-1.tar.gz", "test-0.tar", "trainer-0.tar", "notes.txt", "deep/train-2.tar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("split", "names"),
    [
        (None, ("test-0.tar", "train-0.tar", "train-1.tar.gz", "trainer-0.tar")),
        ("train", ("train-0.tar", "train-1.tar.gz")),
        ("test", ("test-0.tar",)),
    ],
)
def test_a_folder_means_the_tars_directly_in_it_and_a_split_those_that_begin_with_it(folder, split, names):
    assert tars_of_folder(LocalStorage(folder), split).names == names


def test_a_split_may_be_a_subfolder_where_there_are_no_tars_above(folder):
    for path in folder.glob("*.tar*"):
        path.unlink()
    assert tars_of_folder(LocalStorage(folder), "deep").names == ("train-2.tar",)
    assert tars_of_folder(LocalStorage(folder), None).names == ()


def test_a_split_of_which_there_are_no_tars_is_an_error_that_names_the_first(folder):
    with pytest.raises(ConfigError, match=r"split='val'.* of none of 4 shards .*\(the first is test-0\.tar\)"):
        tars_of_folder(LocalStorage(folder), "val")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("train-*.tar*", ("train-0.tar", "train-1.tar.gz")),
        ("{train,test}-0.tar", ("train-0.tar", "test-0.tar")),
        ("*/train-2.tar", ("deep/train-2.tar",)),
        ("t*-[0].tar", ("test-0.tar", "train-0.tar", "trainer-0.tar")),
        ("nothing-*.tar", ()),
    ],
)
def test_a_pattern_means_what_it_matches_in_its_own_folder(folder, pattern, names):
    assert tars_of_pattern(f"{folder}/{pattern}", None).names == names


def test_a_tar_that_is_named_in_full_must_be_there(folder):
    with pytest.raises(NotFoundError, match=r"train-7\.tar: the shard is not there"):
        tars_of_pattern(f"{folder}/train-{{0,7}}.tar", None)


def test_tars_that_are_named_in_full_are_looked_up_at_once_since_each_may_be_a_request(folder, monkeypatch):
    both, exists = threading.Barrier(2), LocalStorage.exists

    def met(storage, path):
        if "{" not in path:
            both.wait(timeout=60)
        return exists(storage, path)

    monkeypatch.setattr(LocalStorage, "exists", met)
    assert tars_of_pattern(f"{folder}/{{test,train}}-0.tar", None).names == ("test-0.tar", "train-0.tar")


def test_a_name_that_leads_to_no_file_is_an_error_and_not_a_missing_tar(folder):
    (folder / "odd-0.tar").symlink_to("absent")
    assert has_name(LocalStorage(folder), "odd-0.tar")
    assert not has_name(LocalStorage(folder), "odd-1.tar")
    for find in (lambda: tars_of_folder(LocalStorage(folder), None), lambda: tars_of_pattern(f"{folder}/odd*", None)):
        with pytest.raises(NotAFileError, match=r"odd-0\.tar: is a broken link"):
            find()


def test_a_sizes_json_gives_names_and_counts(folder):
    (folder / "sizes.json").write_text(json.dumps({"train-0.tar": 3, "test-0.tar": 2}))
    assert tars_of_list(LocalStorage(folder), "sizes.json") == ({"train-0.tar": 3, "test-0.tar": 2}, None)
    found = tars_of_pattern(f"{folder}/sizes.json", "test")
    assert (found.names, found.counts) == (("test-0.tar",), (2,))
    (folder / "sizes.json").write_text("[1]")
    with pytest.raises(FormatError, match=r"sizes\.json"):
        tars_of_list(LocalStorage(folder), "sizes.json")


def test_a_local_list_may_name_tars_elsewhere_on_this_machine_and_nothing_else(folder):
    (folder / "sizes.json").write_text(json.dumps({"../other/a.tar": 3, "deep/train-2.tar": 2}))
    found = tars_of_pattern(f"{folder}/sizes.json", None)
    assert found.storage.root == folder.parent
    assert found.names == ("other/a.tar", f"{folder.name}/deep/train-2.tar")
    for outside in ("s3://b/a.tar", "..\\\\a.tar"):
        (folder / "sizes.json").write_text(json.dumps({outside: 3}))
        with pytest.raises(FormatError, match=r"sizes\.json: lists .*a\.tar', which is not below its folder"):
            tars_of_pattern(f"{folder}/sizes.json", None)


@pytest.mark.parametrize("name", ["cuts.000000.jsonl.gz", "tarred_audio_manifest.json"])
def test_texts_beside_tars_that_are_not_read_are_a_warning(folder, name):
    (folder / name).write_bytes(b"")
    with pytest.warns(UserWarning, match=f"{name} holds .* the texts in it are not read"):
        tars_of_folder(LocalStorage(folder), None)


def test_a_glob_inside_an_output_gives_the_tars_of_one_snapshot(tmp_path):
    write_dataset(tmp_path, {"train": clips(2)})
    write_dataset(tmp_path, {"train": clips(2, first=50)})
    newest, older = (tars_of_pattern(f"{tmp_path}/audio/*.tar", None, snapshot=number) for number in (None, 1))
    assert (newest.snapshot, older.snapshot) == (2, 1)
    assert set(newest.names).isdisjoint(older.names)
    assert len(newest.names) == len(older.names) == 1


def test_only_names_of_buckets_can_be_folders_with_the_characters_of_a_pattern():
    assert not is_bucket_folder("/data/a*")
    assert not is_bucket_folder("s3://bucket/a*.tar")


@pytest.mark.parametrize("end", [".txt", ".list"])
@pytest.mark.parametrize("form", ["{name}", "{folder}/{name}", "file://{folder}/{name}", "./{name}"])
def test_a_text_list_names_tars_by_paths_or_urls_in_its_order(tmp_path, end, form):
    names = ["b/1.tar", "a/0.tar"]
    for name in names:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"")
    lines = [form.format(name=name, folder=tmp_path) for name in names]
    (tmp_path / f"shards{end}").write_text("# all shards\n\n" + "\r\n".join(lines) + "\n")
    tars = locate(f"{tmp_path}/shards{end}").tars
    assert [f"{tars.storage.uri}/{name}" for name in tars.names] == [f"{tmp_path}/{name}" for name in names]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lists nothing"),
        ("notes", "'notes', which is no tar"),
        ("https://host/a.tar?signature=1", "'https://host/a.tar', a URL with a query, as a signed one.*Stream"),
        ("s3://a/1.tar\ns3://b/1.tar", "several stores"),
    ],
)
def test_a_text_without_tars_of_one_place_says_what_a_list_has(tmp_path, text, said):
    (tmp_path / "shards.txt").write_text(text)
    with pytest.raises((NoShardsError, FormatError), match=said):
        locate(str(tmp_path / "shards.txt"))


TWICE = {  # one tar by two names
    "the same": ("train-0.tar", "train-0.tar"),
    "dot": ("train-0.tar", "./train-0.tar"),
    "slashes": ("deep/train-2.tar", "deep//train-2.tar"),
    "up": ("train-0.tar", "deep/../train-0.tar"),
    "absolute": ("train-0.tar", "{folder}/train-0.tar"),
    "pattern": ("train-0.tar", "train-*.tar"),
}


@pytest.mark.parametrize("names", TWICE.values(), ids=TWICE)
def test_a_tar_that_a_list_names_twice_is_read_once_and_reported(folder, monkeypatch, names):
    monkeypatch.chdir(folder)
    listed = [name.format(folder=folder) for name in names]
    with pytest.warns(UserWarning, match=r"names .*train-\d\.tar twice, and it is read once"):
        found = locate(name_of_tars("remote", listed))
    assert len(found.tars.names) == 1


@pytest.mark.parametrize("names", [names for name, names in TWICE.items() if name != "pattern"])
def test_a_tar_that_a_text_list_names_twice_is_read_once_and_reported(folder, names):
    lines = "\r\n".join(name.format(folder=folder) for name in names)
    (folder / "list.txt").write_text(f"\ufeff# made by another tool\r\n\r\n{lines}\r\n")
    with pytest.warns(UserWarning, match=r"list\.txt: names .*train-\d\.tar twice, and it is read once"):
        found = locate(str(folder / "list.txt"))
    assert len(found.tars.names) == 1
