"""Anybody's WebDataset: found by folder, glob, braces or sizes.json, indexed on first use, read like our own."""

import contextlib
import gzip
import io
import json
import shutil
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError, FormatError, NoShardsError, NotFoundError, StorageError
from headrace.upkeep.tar_indexes import index_tars
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import fault_server


def write_tar(path, samples):
    with tarfile.open(path, "w") as archive:
        for clip in samples:
            for name, blob in (("flac", clip.flac()), ("json", clip.json()), ("txt", b"words")):
                info = tarfile.TarInfo(f"{clip.key}.{name}")
                info.size = len(blob)
                archive.addfile(info, io.BytesIO(blob))


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        write_tar(tmp_path / f"train-{number:03d}.tar", clips(4, first=number * 4))
    write_tar(tmp_path / "test-000.tar", clips(2, first=100))
    return tmp_path


def keys(remote, **more):
    loader = StreamingDataLoader(StreamingDataset(remote=str(remote), batch_size=5, **more))
    return sorted(key for batch in loader for key in batch["keys"] if key)


TRAIN = sorted(clip.key for clip in clips(12))


def test_every_way_to_name_it_finds_the_same_samples(folder, tmp_path):
    (folder / "sizes.json").write_text(json.dumps({f"train-{number:03d}.tar": 4 for number in range(3)}))
    assert keys(f"{folder}/train-{{000..002}}.tar") == TRAIN
    assert keys(f"{folder}/train-*.tar") == TRAIN
    assert keys(f"{folder}/sizes.json") == TRAIN
    assert keys(folder, split="train") == TRAIN
    assert len(keys(folder)) == 14
    assert keys(f"{folder}/test-000.tar") == sorted(clip.key for clip in clips(2, first=100))


def test_other_fields_come_along_as_bytes(folder):
    batch = next(iter(StreamingDataLoader(StreamingDataset(remote=f"{folder}/train-*.tar", batch_size=2))))
    assert batch["txt"] == [b"words", b"words"]
    assert np.array_equal(batch["audio"][0, :, : clips(1)[0].num_frames].numpy(), clips(1)[0].audio())


@pytest.mark.filterwarnings("ignore:.*cache_limit")
@pytest.mark.parametrize("on_bad_sample", ["raise", "skip"])
def test_a_cache_too_small_for_a_compressed_shard_is_no_bad_sample(folder, tmp_path, on_bad_sample):
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed/train-000.tar.gz").write_bytes(gzip.compress((folder / "train-000.tar").read_bytes()))
    with pytest.raises(StorageError, match="raise cache_limit"):
        keys(tmp_path / "packed", local=str(tmp_path / "cache"), cache_limit="1kb", on_bad_sample=on_bad_sample)


@pytest.mark.parametrize("keep_zip", [False, True])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_shards_are_unpacked_into_the_cache(folder, tmp_path, suffix, keep_zip):
    packed, cache = tmp_path / "packed", tmp_path / "cache"
    packed.mkdir()
    for path in folder.glob("train-*.tar"):
        blob = path.read_bytes()
        data = gzip.compress(blob) if suffix == ".gz" else zstandard.compress(blob)
        (packed / (path.name + suffix)).write_bytes(data)
    assert keys(packed, local=str(cache), keep_zip=keep_zip) == TRAIN
    assert len([path for path in cache.iterdir() if path.name.endswith(suffix)]) == (3 if keep_zip else 0)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_compressed_shard_that_was_kept_is_unpacked_again_and_not_fetched(folder, tmp_path, is_damaged):
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed/train-000.tar.gz").write_bytes(gzip.compress((folder / "train-000.tar").read_bytes()))
    dataset = StreamingDataset(remote=str(tmp_path / "packed"), local=str(tmp_path / "cache"), keep_zip=True)
    dataset.prepare_shard(0)
    assert dataset.evict_shard(0)
    (kept,) = (tmp_path / "cache").glob("*.gz")
    if is_damaged:
        kept.write_bytes(bytes(kept.stat().st_size))
    needed = dataset.reading.traffic.counts().num_bytes_needed
    dataset.prepare_shard(0)
    assert dataset[0]["__key__"] == clips(1)[0].key
    assert (dataset.reading.traffic.counts().num_bytes_needed > needed) == is_damaged


def test_a_foreign_shard_that_is_damaged_in_the_cache_is_read_from_its_store_and_comes_again(
    folder, tmp_path, monkeypatch
):
    """Nobody knows its digest: the checksums of its fields show it."""
    with fault_server(folder) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        dataset = StreamingDataset(remote=f"{server.uri}/train-*.tar", local=str(tmp_path / "cache"))
        dataset.prepare_shard(0)
        (cached,) = tmp_path.glob("cache/*.tar")
        content = cached.read_bytes()
        start = content.index(b"fLaC") + 60
        cached.write_bytes(content[:start] + bytes(200) + content[start + 200 :])
        with pytest.warns(UserWarning, match=rf"{cached.name}: clip00000\.flac no longer has its CRC-32"):
            assert np.array_equal(dataset.get_item(0)["audio"].numpy(), clips(1)[0].audio())
        assert not cached.exists()
        dataset.prepare_shard(0)
        assert cached.read_bytes() == content


def test_a_compressed_shard_that_another_process_gave_up_is_fetched_all_the_same(folder, tmp_path):
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "train-000.tar.gz").write_bytes(gzip.compress((folder / "train-000.tar").read_bytes()))
    dataset = StreamingDataset(remote=str(packed), local=str(tmp_path / "cache"))
    access = dataset.reading.readers[0].primary
    with ThreadPoolExecutor(1) as reader:
        with contextlib.suppress(ConnectionError), access.cache.receive(access.cache_name(0), 1) as incoming:
            assert incoming is not None
            sample = reader.submit(dataset.get_item, 0)
            while not dataset.reading.traffic.counts().cache_misses:
                time.sleep(0.001)
            raise ConnectionError
        assert sample.result(60)["__key__"] == clips(1)[0].key


def test_indexes_are_kept_and_follow_a_changed_file(folder, tmp_path):
    cache = tmp_path / "cache"
    assert keys(f"{folder}/train-*.tar", local=str(cache)) == TRAIN
    kept = sorted((cache / "indexes").iterdir())
    assert len(kept) == 3
    before = {path: path.stat().st_mtime_ns for path in kept}
    assert keys(f"{folder}/train-*.tar", local=str(cache)) == TRAIN
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    write_tar(folder / "train-000.tar", clips(3, first=50))
    assert len(keys(f"{folder}/train-*.tar", local=str(cache))) == 11


@pytest.mark.parametrize("remote", ["{uri}/train-*.tar", "{uri}/sizes.json"])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_shard_of_a_store_that_was_replaced_is_read_again_even_if_its_size_is_the_same(
    folder, tmp_path_factory, monkeypatch, remote, is_indexed
):
    """Latents that were encoded again have the sizes of those before them."""
    cache, path = tmp_path_factory.mktemp("cache"), folder / "train-001.tar"
    (folder / "sizes.json").write_text(json.dumps({f"train-{number:03d}.tar": 4 for number in range(3)}))
    if is_indexed:
        index_tars(f"{folder}/train-*.tar", num_threads=1)
    with fault_server(folder) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)

        def words():
            dataset = StreamingDataset(remote=remote.format(uri=server.uri), local=str(cache), batch_size=12)
            for shard in range(3):
                dataset.prepare_shard(shard)
            return next(iter(StreamingDataLoader(dataset)))["txt"]

        assert words() == [b"words"] * 12
        assert len(list(cache.glob("*.tar"))) == 3
        num_bytes = path.stat().st_size
        path.write_bytes(path.read_bytes().replace(b"words", b"other"))
        assert path.stat().st_size == num_bytes
        if is_indexed:
            index_tars(f"{folder}/train-*.tar", num_threads=1)
        assert words() == [b"words"] * 4 + [b"other"] * 4 + [b"words"] * 4


def test_a_glob_inside_an_output_of_ours_is_filtered_by_its_snapshot(tmp_path):
    """Old shards share a folder with new ones: a bare glob would read samples twice."""
    write_dataset(tmp_path, {"train": clips(8)})
    write_dataset(tmp_path, {"train": clips(12)})
    assert len(list((tmp_path / "audio").glob("train_*.tar"))) > 3
    assert keys(f"{tmp_path}/audio/train_*.tar") == TRAIN


def test_a_truncated_tar_is_rejected_before_training(folder):
    path = folder / "train-001.tar"
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(FormatError, match=r"train-001\.tar"):
        StreamingDataset(remote=f"{folder}/train-*.tar")


def test_names_that_fit_nothing_are_errors(folder):
    with pytest.raises(NoShardsError, match="no tars match"):
        StreamingDataset(remote=f"{folder}/nothing-*.tar")
    with pytest.raises(NotFoundError, match="train-003"):
        StreamingDataset(remote=f"{folder}/train-{{000..003}}.tar")
    with pytest.raises(ConfigError, match="snapshot"):
        StreamingDataset(remote=f"{folder}/train-*.tar", snapshot=7)


@pytest.mark.parametrize("name", ["a [1]", "{a,b}", "what?", "*", "x.tar", "50% off"])
def test_folders_that_are_there_may_be_named_like_patterns(folder, tmp_path, name):
    tars = sorted(folder.glob("*.tar"))
    wanted = len(StreamingDataset(remote=str(folder)))
    odd = tmp_path / name
    odd.mkdir()
    for tar in tars:
        shutil.copy(tar, odd)
    (odd / "sizes.json").write_text(json.dumps({"train-000.tar": 1}))
    for called in (f"{odd}", f"file://{odd}"):
        assert len(StreamingDataset(remote=called)) == wanted
        assert len(StreamingDataset(remote=f"{called}/*.tar")) == wanted
        assert len(StreamingDataset(remote=f"{called}/sizes.json")) == 1


def test_a_foreign_state_is_rejected_when_the_shards_changed(folder):
    from headrace.errors import StateError

    state = StreamingDataset(remote=f"{folder}/train-*.tar").state_dict()
    write_tar(folder / "train-003.tar", clips(3, first=50))
    with pytest.raises(StateError, match="differ"):
        StreamingDataset(remote=f"{folder}/train-*.tar").load_state_dict(state)
