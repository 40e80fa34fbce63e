"""Errors about other people's files name the file and the way out."""

import gzip
import json
import os
import tarfile

import pytest
import zstandard

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import FormatError, IntegrityError, SampleCountError, SampleError
from headrace.upkeep.tar_indexes import index_tars
from tests.streaming.shards.test_foreign import keys, write_tar
from tests.support.streaming.corpus import clips, write_dataset

ODD = {
    "a list": "[1, 2]",
    "no JSON": "{oops",
    "no counts": '{"a.tar": "four"}',
    "negative": '{"a.tar": -4}',
    "another tool's": '{"version": 2, "shards": []}',
    "a list of nothing": '{"shardlist": 7}',
    "a list without counts": '{"shardlist": [{"url": "a.tar"}]}',
    "a list of elsewhere": '{"shardlist": [{"url": "s3://elsewhere/a.tar", "nsamples": 4}]}',
    "a list with one twice": json.dumps({"shardlist": [{"url": "a.tar", "nsamples": 4}] * 2}),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
@pytest.mark.parametrize("reader", [StreamingDataset, webdataset_loader])
def test_a_sizes_json_that_is_none_is_named(tmp_path, reader, text):
    write_tar(tmp_path / "a.tar", clips(4))
    (tmp_path / "sizes.json").write_text(text)
    with pytest.raises(FormatError, match=r"/sizes\.json: .*(brace pattern)"):
        reader(str(tmp_path / "sizes.json")) if reader is webdataset_loader else reader(remote=tmp_path / "sizes.json")
    assert len(keys(tmp_path)) == 4  # the folder does not need it
    assert len(webdataset_loader(tmp_path, batch_size=None).shards) == 1


@pytest.mark.parametrize("url", ["a.tar", "{folder}/a.tar"])
def test_lists_of_wids_are_read(tmp_path, url):
    write_tar(tmp_path / "a.tar", clips(4))
    listed = [{"url": url.format(folder=tmp_path), "nsamples": 4, "filesize": 1}]
    (tmp_path / "index.json").write_text(json.dumps({"wids_version": 1, "shardlist": listed}))
    assert keys(tmp_path / "index.json") == sorted(clip.key for clip in clips(4))
    assert len(webdataset_loader(tmp_path / "index.json", batch_size=None)) == 4


def test_counts_of_energon_are_read(tmp_path):
    (tmp_path / "set/shards").mkdir(parents=True)
    (tmp_path / "set/.nv-meta").mkdir()
    write_tar(tmp_path / "set/shards/a.tar", clips(4))
    info = tmp_path / "set/.nv-meta/.info.json"
    info.write_text(json.dumps({"energon_version": "7.4.0", "shard_counts": {"shards/a.tar": 4}}))
    assert keys(info) == sorted(clip.key for clip in clips(4))
    info.write_text(json.dumps({"shard_counts": {"shards/a.tar": 5}}))
    with pytest.raises(SampleCountError, match=r"holds 4 samples, .*info\.json says 5"):
        keys(info)


@pytest.mark.parametrize("counts", [["a.tar"], {"a.tar": -1}, {"a.tar": "4"}, {"a.tar": 10**30}])
def test_counts_of_energon_that_are_none_are_named(tmp_path, counts):
    (tmp_path / ".nv-meta").mkdir()
    (info := tmp_path / ".nv-meta/.info.json").write_text(json.dumps({"shard_counts": counts}))
    with pytest.raises(FormatError, match=r"\.info\.json: expected"):
        keys(info)


def test_a_base_of_a_wids_list_counts(tmp_path):
    (tmp_path / "deep").mkdir()
    write_tar(tmp_path / "deep/a.tar", clips(4))
    content = {"base": f"{tmp_path}/deep/", "shardlist": [{"url": "a.tar", "nsamples": 4}]}
    (tmp_path / "index.json").write_text(json.dumps(content))
    assert len(keys(tmp_path / "index.json")) == 4


@pytest.mark.parametrize("declared", [None, 0])
def test_shards_without_a_single_sample_are_rejected(tmp_path, declared):
    with tarfile.open(tmp_path / "a.tar", "w"):
        pass
    if declared is not None:
        (tmp_path / "sizes.json").write_text(json.dumps({"a.tar": declared}))
    with pytest.raises(FormatError, match=r"/a\.tar: no sample in this shard: "):
        StreamingDataset(remote=tmp_path if declared is None else tmp_path / "sizes.json")


def test_a_shard_without_samples_among_others_is_none_of_them(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w"):
        pass
    write_tar(tmp_path / "b.tar", clips(4))
    assert len(keys(tmp_path)) == 4


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar.zst"])
@pytest.mark.parametrize("is_flipped", [False, True])
def test_a_compressed_shard_that_cannot_be_unpacked_is_named(tmp_path, name, is_flipped):
    write_tar(tmp_path / "plain", clips(4))
    packed = bytearray(_packed((tmp_path / "plain").read_bytes(), name) if is_flipped else b"hello" * 100)
    packed[len(packed) // 2] ^= 1
    (tmp_path / name).write_bytes(packed)
    with pytest.raises(IntegrityError, match=rf"/{name}: damaged, .*fetch or build it again"):
        StreamingDataset(remote=tmp_path / name, local=str(tmp_path / "cache"), download_retry=0)


def _packed(blob, name):
    zst = zstandard.ZstdCompressor(write_checksum=True)
    return zst.compress(blob) if name.endswith(".zst") else gzip.compress(blob)


@pytest.fixture
def rewritten(tmp_path):
    """A tar with other words, but of the size of the one that was indexed."""
    path = tmp_path / "a.tar"
    write_tar(path, clips(4))
    index_tars(str(tmp_path), num_threads=1)
    before = path.stat()
    write_tar(path, clips(4)[::-1])
    assert path.stat().st_size == before.st_size
    return path


def date(path, seconds):
    os.utime(path, (seconds, seconds))


@pytest.mark.parametrize("name", ["", "*.tar", "sizes.json"])
def test_an_index_older_than_its_tar_is_made_again(rewritten, name):
    date(rewritten, 2000)
    date(rewritten.with_suffix(".idx"), 1000)
    dataset = StreamingDataset(remote=f"{rewritten.parent}/{name}", validate_hash=True)
    assert [dataset[number]["__key__"] for number in range(4)] == [clip.key for clip in clips(4)[::-1]]


def test_an_index_as_old_as_its_tar_is_read_and_its_digest_error_says_how_to_go_on(rewritten):
    """Copies keep both times, or give any within seconds of each other."""
    for path in (rewritten, rewritten.with_suffix(".idx")):
        date(path, 1000)
    dataset = StreamingDataset(remote=rewritten.parent, validate_hash=True)
    with pytest.raises(SampleError, match=r"SHA-256 .*copy it again, or run `headrace index`"):
        dataset[0]


def test_shards_of_ours_keep_their_index_whichever_was_copied_first(tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    for path in (tmp_path / "audio").iterdir():
        if path.suffix in {".idx", ".tar"}:
            date(path, 1000 if path.suffix == ".idx" else 2000)
    assert len(keys(tmp_path / "audio/*.tar", local=str(tmp_path / "cache"))) == 4
    assert not (tmp_path / "cache/indexes").exists()
