"""Answers of a store with bits that flipped on the way: fetched again past all caches, and never delivered."""

import os
import shutil

import numpy as np
import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import FormatError, IntegrityError, SampleError
from headrace.format.indexes.index_files import read_index
from headrace.stores.storage import LocalStorage
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import check, keep_all, make
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of

pytestmark = [pytest.mark.filterwarnings("ignore:.*cache_limit"), pytest.mark.usefixtures("short_pauses")]
RANGES_ALONE = {"cache_limit": "1kb"}


def flip(suffix, place, times=10**9):
    """Damage for `FaultServer.damage`: flips one bit of an object, in the first `times` answers that have it."""
    left = [times]

    def damage(request, start, blob):
        at = place - start
        if not request.path.endswith(suffix) or not 0 <= at < len(blob) or not left[0]:
            return blob
        left[0] -= 1
        return blob[:at] + bytes([blob[at] ^ 1 << place % 8]) + blob[at + 1 :]

    return damage


def garble(suffix, times=10**9):
    """Damage for `FaultServer.damage`: turns all bits of the first `times` answers about the object asked for first."""
    left, first = [times], []

    def damage(request, start, blob):
        if not request.path.endswith(suffix) or not left[0] or request.path != (first or [request.path])[0]:
            return blob
        first.append(request.path)
        left[0] -= 1
        return bytes(255 - byte for byte in blob)

    return damage


def garble_until_past_caches(suffix, num_requests):
    """Damage for `FaultServer.damage`: turns all bits of the object asked for first, until this request past caches.

    Threads may ask for one object at the same time, so the number of damaged answers does not say how often one of them
    was damaged.
    """
    left, first = [num_requests], []

    def damage(request, start, blob):
        if not request.path.endswith(suffix) or request.path != (first or [request.path])[0]:
            return blob
        first.append(request.path)
        left[0] -= request.is_past_caches
        return bytes(255 - byte for byte in blob) if left[0] > 0 else blob

    return damage


@pytest.mark.parametrize(("folder", "name"), [("audio", "json"), ("audio", "flac"), ("latents/crepe", "pth")])
def test_no_flipped_bit_of_a_field_is_delivered_by_ranges(server, tmp_path, folder, name):
    dataset = make(f"{server.uri}/{folder}", tmp_path, shuffle=False, download_retry=0, **RANGES_ALONE)
    access = dataset.reading.readers[0].primary
    index, shard = access.index(0), access.name(0)
    span = index.range_of(1, name)
    for place in range(*span, max(1, (span[1] - span[0]) // 25)):
        server.damage = flip(shard, place)
        with pytest.raises(SampleError, match=rf"{shard}: sample .* {index.key(1)}\.{name}, bytes .*CRC-32.*once"):
            dataset.get_item(1)
        assert dataset.get_item(0)["__key__"] == index.key(0)  # it travels in another answer
    server.damage = flip(shard, span[0], times=0)
    assert dataset.get_item(1)["__key__"] == index.key(1)


OBJECTS = {
    "an index": ("audio", ".idx"),
    "a shard": ("audio", ".tar"),
    "a table of shards": ("audio", ".shards"),
    "a snapshot": ("audio", "snapshots/00000001.json"),
    "sizes.json": ("audio/sizes.json", "sizes.json"),
    "a shard of a plain WebDataset": ("audio/train*.tar", ".tar"),
}


@pytest.mark.medium
@pytest.mark.parametrize("settings", [{}, RANGES_ALONE], ids=["whole shards", "ranges alone"])
@pytest.mark.parametrize("which", OBJECTS.values(), ids=OBJECTS)
def test_two_damaged_answers_are_fetched_again_past_all_caches(server, corpus, tmp_path, which, settings):
    remote, suffix = which
    server.damage = garble_until_past_caches(suffix, 2)
    check(make(f"{server.uri}/{remote}", tmp_path, **settings), corpus)
    asked = [request for request in server.requests if request.path.endswith(suffix) and request.method == "GET"]
    assert sum(request.is_past_caches for request in asked) >= 2


@pytest.mark.parametrize(("remote", "suffix"), list(OBJECTS.values())[:4], ids=list(OBJECTS)[:4])
def test_what_is_damaged_each_time_is_an_error_that_does_not_advise_to_remove_it(server, tmp_path, remote, suffix):
    """Its copy in the store may be sound: the error says how often it was fetched, and how to check."""
    server.damage = garble(suffix)
    with pytest.raises((FormatError, SampleError), match=r"downloaded 3 times, past all caches") as raised:
        list(StreamingDataLoader(make(f"{server.uri}/{remote}", tmp_path)))
    assert "headrace verify" in str(raised.value)
    assert not {"remove", "delete", "build it again"} & set(str(raised.value).split())


@pytest.mark.medium
def test_a_damaged_sample_of_the_store_costs_no_other_sample(server, dataset_folder, corpus, tmp_path):
    storage = LocalStorage(dataset_folder / "audio")
    shard = min((dataset_folder / "audio").glob("train*.tar")).name
    index = read_index(storage, shard)
    server.damage = flip(shard, index.range_of(2, "json")[0] + 5)
    dataset = make(f"{server.uri}/audio", tmp_path, on_bad_sample="skip", download_retry=1)
    for _ in range(2):
        arrived = {key for batch in StreamingDataLoader(dataset) for key in batch["keys"]}
        assert arrived - {""} == {clip.key for clip in corpus} - {index.key(2)}


@pytest.mark.parametrize("settings", [{}, RANGES_ALONE], ids=["whole shards", "ranges alone"])
def test_tars_of_others_in_a_store_have_checksums_without_an_index_beside_them(tmp_path, monkeypatch, settings):
    (tmp_path / "data").mkdir()
    corpus = clips(4)
    members = {}
    for clip in corpus:
        members |= {f"{clip.key}.flac": clip.flac(), f"{clip.key}.json": clip.json()}
    blob = tar_of(members)
    (tmp_path / "data/a.tar").write_bytes(blob)
    place = blob.index(b"Clip 1")
    with fault_server(tmp_path / "data") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        dataset = make(f"{server.uri}/a.tar", tmp_path / "cache", split=None, shuffle=False, **settings)
        server.damage = flip("a.tar", place, times=2)
        check(dataset, corpus)
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        server.damage = flip("a.tar", place)
        dataset = make(f"{server.uri}/a.tar", tmp_path / "cache", split=None, download_retry=1, **settings)
        server.damage = flip("a.tar", place + 8)
        with pytest.raises(SampleError, match=r"a\.tar.*clip00001\.json"):
            list(StreamingDataLoader(dataset))


def test_an_index_that_was_made_of_damaged_bytes_is_not_kept(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    clip = clips(1)[0]
    blob = tar_of({f"{clip.key}.flac": clip.flac(), f"{clip.key}.json": clip.json()})
    (tmp_path / "data/a.tar").write_bytes(blob)
    with fault_server(tmp_path / "data") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        server.damage = flip("a.tar", blob.index(b"Clip"))
        settings = {"remote": f"{server.uri}/a.tar", "local": str(tmp_path / "cache"), "download_retry": 1}
        dataset = StreamingDataset(**settings)
        server.damage = flip("a.tar", 0, times=0)
        with pytest.raises(SampleError, match="CRC-32"):
            dataset.get_item(0)
        for sound in (dataset, StreamingDataset(**settings)):
            assert sound.get_item(0)["metadata"]["title"].startswith("Clip")


@pytest.mark.parametrize("how", [{}, {"transform": lambda sample: sample}], ids=["whole batches", "one by one"])
def test_json_that_is_damaged_in_the_cache_comes_from_the_store_within_the_epoch(server, corpus, tmp_path, how):
    keep_all(make(f"{server.uri}/audio", tmp_path))
    for victim in sorted(tmp_path.glob("train*.tar"))[:3]:
        content = bytearray(victim.read_bytes())
        content[content.index(b"Clip")] ^= 2
        victim.write_bytes(content)
    with pytest.warns(UserWarning, match="this copy in the cache was damaged and has been removed"):
        loader = check(make(f"{server.uri}/audio", tmp_path, **how), corpus)
    keep_all(loader.dataset)
    assert all(b"Clip" in path.read_bytes() for path in tmp_path.glob("train*.tar"))


def test_latents_that_are_cut_off_in_the_cache_while_they_are_open_come_from_the_store(server, tmp_path):
    dataset = make(f"{server.uri}/latents/crepe", tmp_path, shuffle=False)
    keep_all(dataset)
    wanted = [dataset.get_item(number) for number in range(5)]
    victim = min(tmp_path.glob("latent_train*.tar"))
    os.truncate(victim, 1000)
    with pytest.warns(UserWarning, match="damaged and has been removed"):
        found = [dataset.get_item(number) for number in range(5)]
    for one, other in zip(wanted, found, strict=True):
        assert np.array_equal(one["encoder_hidden"], other["encoder_hidden"])


@pytest.fixture
def one_shard(tmp_path, monkeypatch):
    """An output of one shard behind a server that a test can make fail."""
    write_dataset(tmp_path, {"train": clips(2)})
    with fault_server(tmp_path) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        yield face


def faults(server):
    return verify(find_target(server.uri), Depth()).faults


@pytest.mark.parametrize("suffix", [".tar", ".idx", ".shards", "manifests/train-0000/00000001.json", "sizes.json"])
def test_verify_blames_nothing_in_the_store_for_an_answer_that_came_damaged(one_shard, suffix):
    one_shard.damage = garble(suffix, times=1)
    assert faults(one_shard) == []
    assert any(request.is_past_caches for request in one_shard.requests if request.path.endswith(suffix))
    one_shard.damage = garble(suffix)
    assert faults(one_shard)


def plain_keys(server):
    loader = webdataset_loader(f"{server.uri}/audio", batch_size=8, split="train")
    return [key for batch in loader for key in batch["keys"]]


@pytest.mark.medium
@pytest.mark.parametrize("name", ["json", "flac"])
def test_webdataset_loader_delivers_no_flipped_bit_of_a_field(server, dataset_folder, corpus, name):
    shard = min((dataset_folder / "audio").glob("train*.tar")).name
    start, stop = read_index(LocalStorage(dataset_folder / "audio"), shard).range_of(1, name)
    expected = {clip.key: clip for clip in corpus}
    for place in range(start, stop, max(1, (stop - start) // 5)):
        server.damage = flip(shard, place, times=2)
        found = [
            key
            for batch in webdataset_loader(f"{server.uri}/audio", batch_size=8, split="train")
            for key in batch["keys"]
        ]
        assert sorted(found) == sorted(expected)
        server.damage = flip(shard, place)
        with pytest.raises((IntegrityError, SampleError), match=rf"{shard}.*\.{name}.*downloaded 3 times"):
            plain_keys(server)


def test_webdataset_loader_downloads_a_damaged_tar_again_and_delivers_each_sample_once(server, dataset_folder, corpus):
    server.damage = garble(".tar", times=2)
    found = [
        key for batch in webdataset_loader(f"{server.uri}/audio", batch_size=8, split="train") for key in batch["keys"]
    ]
    assert sorted(found) == sorted(clip.key for clip in corpus)
