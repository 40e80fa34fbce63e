"""The shards that a WebDataset pipeline reads, with the counts that are known; no shard is opened."""

import json

import pytest

from headrace.errors import ConfigError, NotFoundError
from headrace.locate.shard_list import locate_shards
from headrace.upkeep.tar_indexes import index_tars
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def tars(tmp_path):
    """Three tars that nobody opens, of which a list counts two."""
    for name in ("a-0.tar", "a-1.tar", "b.tar"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sizes.json").write_text(json.dumps({"a-0.tar": 4, "b.tar": 2}))
    return tmp_path


def found(urls, **more):
    return [(shard.name, shard.num_samples) for shard in locate_shards(urls, **more)]


def test_counts_come_from_the_list_beside_the_tars_where_it_has_them(tars):
    assert found(tars) == [("a-0.tar", 4), ("a-1.tar", None), ("b.tar", 2)]
    (tars / "sizes.json").write_text('{"of": "another tool"}')
    assert found(tars) == [("a-0.tar", None), ("a-1.tar", None), ("b.tar", None)]


def test_several_names_come_in_their_order(tars):
    both = [("b.tar", 2), ("a-0.tar", 4), ("a-1.tar", None)]
    assert found(f"{tars}/b.tar::{tars}/a-{{0..1}}.tar") == both
    assert found([tars / "b.tar", f"{tars}/a-*.tar"]) == both


@pytest.mark.parametrize("url", ["pipe:cat a.tar :: b.tar", "ais://x/a.tar", "https://host/a.tar?signature=1"])
def test_urls_for_webdatasets_own_openers_are_passed_on(url):
    (shard,) = locate_shards(url)
    assert (shard.storage, shard.name, shard.counted()) == (None, url, None)
    assert shard.url == url.partition("?")[0]  # no signature in a message


def test_shards_of_an_output_are_those_of_one_snapshot_and_split(tmp_path):
    write_dataset(tmp_path, {"train": clips(6), "test": clips(2, first=90)})
    write_dataset(tmp_path, {"train": clips(3)})
    assert [count for _, count in found(tmp_path)] == [2, 3]
    assert [count for _, count in found(tmp_path, snapshot=1, split="train")] == [5, 1]
    assert all(shard.is_built for shard in locate_shards(tmp_path))
    with pytest.raises(NotFoundError, match="snapshot 7"):
        locate_shards(tmp_path, snapshot=7)


def test_where_no_list_counts_a_tar_the_index_beside_it_does(tmp_path):
    write_dataset(tmp_path / "built", {"train": clips(3)})
    (tar,) = (tmp_path / "built/audio").glob("*.tar")
    plain = tmp_path / "plain.tar"
    plain.write_bytes(tar.read_bytes())
    (shard,) = locate_shards(plain)
    assert shard.counted() is None
    index_tars(str(plain), num_threads=1)
    assert (shard.counted(), len(shard.current_index())) == (3, 3)


def test_no_names_are_an_error():
    with pytest.raises(ConfigError, match="the list of URLs is empty"):
        locate_shards([])
