"""Damaged shards in a store, on a disk, in the cache: nothing of them is ever served as if it were sound."""

import os
import shutil
import warnings

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import SampleError
from headrace.format.indexes.index_files import parse_index
from headrace.format.shards.writer import ShardPlace
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars
from tests.support.streaming.corpus import Clip, commit, write_audio_shard
from tests.support.streaming.drills import check, keep_all, make
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of


@pytest.mark.medium
@pytest.mark.parametrize("cache_limit", ["50gb", "1kb"], ids=["whole shards", "ranges alone"])
def test_latents_that_are_damaged_in_the_store_are_never_served(dataset_folder, tmp_path, monkeypatch, cache_limit):
    folder = tmp_path / "data"
    shutil.copytree(dataset_folder / "latents/crepe", folder / "latents")
    dataset = StreamingDataset(remote=f"{folder}/latents", split="train")
    damaged = dataset.get_item(17)
    shard = next(
        path for path in sorted(folder.glob("latents/*.tar")) if damaged["__key__"].encode() in path.read_bytes()
    )
    content = bytearray(shard.read_bytes())
    content[content.index(damaged["encoder_hidden"].numpy().tobytes()) + 9] ^= 1
    shard.write_bytes(content)
    with fault_server(folder) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "1kb" holds no shard
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        more = {"download_retry": 0, "cache_limit": cache_limit}
        dataset = make(f"{server.uri}/latents", tmp_path / "cache", **more)
        for _ in range(2):  # not in a second epoch either
            with pytest.raises(SampleError, match=shard.name):
                list(StreamingDataLoader(dataset))
        dataset = make(f"{server.uri}/latents", tmp_path / "cache", on_bad_sample="skip", **more)
        for _ in range(2):
            arrived = {key for batch in StreamingDataLoader(dataset) for key in batch["keys"]}
            assert damaged["__key__"] not in arrived
            assert len(arrived - {""}) >= 53 - 5


@pytest.mark.medium
def test_a_shard_that_is_cut_off_in_the_store_is_named_or_skipped(dataset_folder, tmp_path, monkeypatch):
    shutil.copytree(dataset_folder / "audio", tmp_path / "data/audio")
    shard = sorted(tmp_path.glob("data/audio/train*.tar"))[3]
    os.truncate(shard, 600)
    with fault_server(tmp_path / "data") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        dataset = make(f"{server.uri}/audio", tmp_path / "cache", download_retry=0)
        with pytest.raises(SampleError, match=rf"{shard.name}.* bytes expected, 600 found"):
            list(StreamingDataLoader(dataset))
        dataset = make(f"{server.uri}/audio", tmp_path / "cache", download_retry=0, on_bad_sample="skip")
        assert sum(bool(key) for batch in StreamingDataLoader(dataset) for key in batch["keys"]) == 53 - 5


@pytest.mark.medium
def test_validate_hash_finds_a_byte_that_flipped_in_the_cache(server, corpus, tmp_path):
    keep_all(make(f"{server.uri}/audio", tmp_path))
    shard = min(tmp_path.glob("*.tar"))
    content = shard.read_bytes()
    shard.write_bytes(content[:600] + bytes([content[600] ^ 1]) + content[601:])
    check(make(f"{server.uri}/audio", tmp_path, validate_hash=True), corpus)
    keep_all(check(make(f"{server.uri}/audio", tmp_path), corpus).dataset)
    assert shard.read_bytes() == content


def damaged_copy(dataset_folder, tmp_path, damage):
    shutil.copytree(dataset_folder / "audio", tmp_path / "audio")
    victim = sorted((tmp_path / "audio").glob("train*.tar"))[2]
    damage(victim)
    return victim


def test_a_truncated_shard_is_named(dataset_folder, tmp_path):
    victim = damaged_copy(dataset_folder, tmp_path, lambda path: os.truncate(path, path.stat().st_size // 2))
    with pytest.raises(SampleError, match=rf"{victim.name}.*bytes expected"):
        list(StreamingDataLoader(make(f"{tmp_path}/audio")))


def test_a_missing_shard_is_named(dataset_folder, tmp_path):
    victim = damaged_copy(dataset_folder, tmp_path, os.unlink)
    with pytest.raises(SampleError, match=rf"{victim.name}.*gone"):
        list(StreamingDataLoader(make(f"{tmp_path}/audio")))


def test_a_shard_that_shrinks_while_it_is_open_is_an_error_and_no_crash(dataset_folder, tmp_path):
    shutil.copytree(dataset_folder / "audio", tmp_path / "audio")
    dataset = make(f"{tmp_path}/audio", shuffle=False)
    dataset.get_item(0)
    os.truncate(next((tmp_path / "audio").glob("train_0000_000000*.tar")), 2000)
    with pytest.raises(SampleError, match="ends at 2000"):
        dataset.get_item(4)


def test_a_flip_in_local_latents_is_found_by_default_and_in_parts_of_them_by_validate_hash(dataset_folder, tmp_path):
    shutil.copytree(dataset_folder / "latents/crepe", tmp_path / "crepe")
    victim = sorted((tmp_path / "crepe").glob("latent_train*.tar"))[2]
    flip_at(victim, int(index_beside(victim).tensors[1, 0, 0]) + 3)
    with pytest.raises(SampleError, match=rf"{victim.name}.*its latents: CRC-32"):
        list(StreamingDataLoader(make(f"{tmp_path}/crepe")))
    list(StreamingDataLoader(make(f"{tmp_path}/crepe", crop_frames=2)))
    with pytest.raises(SampleError, match=rf"{victim.name}.*SHA-256"):
        list(StreamingDataLoader(make(f"{tmp_path}/crepe", crop_frames=2, validate_hash="sha256")))


def index_beside(shard):
    """The index of a local shard."""
    return parse_index(shard.with_suffix(".idx").read_bytes(), shard.name)


def flip_at(path, byte, bit=0):
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(byte)
        found = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([found ^ 1 << bit]))


WAYS = {"whole batches": {}, "one by one": {"transform": lambda sample: sample}}


@pytest.mark.parametrize("folder", ["audio", "latents/crepe"])
@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_no_flipped_bit_of_local_json_is_delivered(dataset_folder, tmp_path, folder, how):
    """Many flips give other JSON that is as valid."""
    shutil.copytree(dataset_folder / folder, tmp_path / "data")
    victim = min((tmp_path / "data").glob("*train*.tar"))
    index = index_beside(victim)
    start, stop = index.range_of(0, "json")
    dataset = make(f"{tmp_path}/data", shuffle=False, **how)
    for place in range(start, stop, 5):
        flip_at(victim, place, place % 8)
        with pytest.raises(SampleError, match=rf"{victim.name}: sample '{index.key(0)}': field 'json': CRC-32"):
            next(iter(StreamingDataLoader(dataset)))
        flip_at(victim, place, place % 8)


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_a_flipped_bit_of_a_label_beside_the_audio_is_not_delivered(tmp_path, how):
    shard = tmp_path / "a.tar"
    shard.write_bytes(tar_of({"x.flac": Clip(0, 300).flac(), "x.cls": b"7", "x.png": bytes(5000)}))
    assert not [tar.fault for tar in index_tars(str(tmp_path), num_threads=1) if tar.fault]
    flip_at(shard, index_beside(shard).range_of(0, "cls")[0])
    os.utime(shard.with_suffix(".idx"))  # or the tar would be indexed again
    with pytest.raises(SampleError, match=r"a\.tar: sample 'x': field 'cls': CRC-32"):
        next(iter(StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=1, **how))))


@pytest.mark.medium
@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_no_flipped_bit_of_a_local_flac_header_is_delivered(dataset_folder, tmp_path, how):
    """No checksum of FLAC covers its header. All that follows has checksums of its own, which the decoder compares."""
    shutil.copytree(dataset_folder / "audio", tmp_path / "data")
    victim = min((tmp_path / "data").glob("train*.tar"))
    header = index_beside(victim).range_of(0, "flac")[0]
    dataset = make(f"{tmp_path}/data", shuffle=False, batch_size=1, **how)
    sound = next(iter(StreamingDataLoader(dataset)))
    num_refused = 0
    for bit in range(8 * 18, 8 * 26):  # rate, channels, bits per sample, length
        flip_at(victim, header + bit // 8, bit % 8)
        try:
            found = next(iter(StreamingDataLoader(dataset)))
        except SampleError:
            num_refused += 1
        else:  # the bits per sample, which every frame says again
            assert torch.equal(found["audio"], sound["audio"])
            assert found["sample_rate"].equal(sound["sample_rate"])
        flip_at(victim, header + bit // 8, bit % 8)
    assert num_refused >= 20 + 3 + 36


@pytest.mark.medium
def test_a_damaged_cached_shard_is_fetched_again(server, corpus, tmp_path):
    keep_all(make(f"{server.uri}/audio", tmp_path))
    for number, path in enumerate(sorted(tmp_path.glob("*.tar"))):
        os.truncate(path, 0 if number % 2 else 700)
    check(make(f"{server.uri}/audio", tmp_path), corpus)
    for path in tmp_path.glob("*.idx"):
        path.write_bytes(path.read_bytes()[:50])
    check(make(f"{server.uri}/audio", tmp_path), corpus)


def flip_in_flac(path):
    """Another byte within the last frames of the shard's first FLAC, in a file of the same size."""
    blob = bytearray(path.read_bytes())
    blob[blob.index(b"fLaC") + 700] ^= 255
    path.write_bytes(blob)


def flip_in_json(path):
    """Make the JSON of the first sample invalid."""
    blob = bytearray(path.read_bytes())
    blob[blob.index(b'{"')] = ord("x")
    path.write_bytes(blob)


@pytest.mark.medium
@pytest.mark.parametrize("flip", [flip_in_flac, flip_in_json])
def test_a_sample_that_is_damaged_in_the_cache_comes_from_the_store_and_the_copy_is_replaced(
    server, corpus, tmp_path, flip
):
    keep_all(make(f"{server.uri}/audio", tmp_path))
    victim = min(tmp_path.glob("train*.tar"))
    sound = victim.read_bytes()
    flip(victim)
    dataset = make(f"{server.uri}/audio", tmp_path, shuffle=False)
    with pytest.warns(UserWarning, match=rf"{victim.name}: .*damaged and has been removed"):
        assert np.array_equal(dataset.get_item(0)["audio"].numpy(), corpus[0].audio())
    assert not victim.exists()
    check(dataset, corpus)
    keep_all(dataset)
    assert victim.read_bytes() == sound


def test_a_sound_copy_of_what_is_damaged_in_the_store_stays_in_the_cache(tmp_path, monkeypatch):
    """Its digest is what was committed: bringing it again would only give the same."""
    audio = LocalStorage(tmp_path / "data/audio")
    broken = Clip(0, 400)
    monkeypatch.setattr(Clip, "flac", lambda clip: b"fLaC" + bytes(300))
    shard = write_audio_shard(audio, ShardPlace("train", 0, 0), [broken])
    commit(audio, {"train-0000": [shard]}, {})
    with fault_server(tmp_path / "data") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        dataset = make(f"{server.uri}/audio", tmp_path / "cache")
        keep_all(dataset)
        for _ in range(2):
            with pytest.raises(SampleError, match=broken.key):
                dataset.get_item(0)
    assert (tmp_path / "cache" / shard.shard).exists()
