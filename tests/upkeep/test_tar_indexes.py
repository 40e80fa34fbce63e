"""The command `headrace index` writes indexes, and `sizes.json` only if every tar is valid."""

import json

import pytest

from headrace.errors import ConfigError, FormatError, NoShardsError
from headrace.format.indexes.index_files import read_index
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars, read_sizes, write_folder_sizes
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def tars(tmp_path):
    """A folder with a tar of five samples and one of three, without indexes."""
    write_dataset(tmp_path / "output", {"train": clips(8)})
    folder = tmp_path / "tars"
    folder.mkdir()
    for name, tar in zip("ab", sorted((tmp_path / "output/audio").glob("*.tar")), strict=True):
        (folder / f"{name}.tar").write_bytes(tar.read_bytes())
    return folder


def test_every_tar_gets_an_index_and_the_folder_its_sizes(tars):
    seen = []
    found = index_tars(str(tars), num_threads=2, progress=seen.append)
    assert [(one.name, one.num_samples, one.fault) for one in found] == [("a.tar", 5, ""), ("b.tar", 3, "")]
    assert sorted(one.name for one in seen) == ["a.tar", "b.tar"]
    assert json.loads((tars / "sizes.json").read_text()) == {"a.tar": 5, "b.tar": 3}
    assert read_index(LocalStorage(tars), "b.tar").keys() == [clip.key for clip in clips(8)[5:]]


def test_a_damaged_tar_is_reported_and_no_sizes_are_written(tars):
    (tars / "b.tar").write_bytes((tars / "b.tar").read_bytes()[:700])
    good, bad = index_tars(str(tars), num_threads=1)
    assert (good.num_samples, bad.num_samples) == (5, 0)
    assert bad.fault
    assert not (tars / "sizes.json").exists()


def test_sizes_of_other_tars_stay_while_they_exist(tars):
    (tars / "sizes.json").write_text('{"b.tar": 3, "gone.tar": 1}')
    write_folder_sizes(LocalStorage(tars), {"a.tar": 5})
    assert read_sizes(LocalStorage(tars)) == {"a.tar": 5, "b.tar": 3}


@pytest.mark.parametrize("content", ["[1]", '{"a.tar": "x"}', "no json"])
def test_a_sizes_json_of_another_form_is_not_replaced(tars, content):
    (tars / "sizes.json").write_text(content)
    with pytest.raises(FormatError, match=r"sizes\.json"):
        index_tars(str(tars), num_threads=1)
    assert (tars / "sizes.json").read_text() == content
    assert not list(tars.glob("*.idx"))


def test_our_own_outputs_compressed_tars_and_nothing_are_refused(tars, tmp_path):
    with pytest.raises(ConfigError, match="is in a data set that Headrace built"):
        index_tars(str(tmp_path / "output"), num_threads=1)
    (tars / "c.tar.gz").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"c\.tar\.gz: is compressed"):
        index_tars(str(tars), num_threads=1)
    with pytest.raises(NoShardsError):
        index_tars(str(tars / "x*.tar"), num_threads=1)
