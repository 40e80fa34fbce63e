import hashlib
import json
import zlib
from dataclasses import replace

import pytest

from headrace.errors import AlreadyExistsError, FormatError, NotFoundError
from headrace.format.manifests.manifests import (
    Manifest,
    ManifestRejection,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    commit_manifest,
    is_shard_name,
    keys_path,
    manifest_path,
    newest_manifest,
    newest_manifests,
    numbered_keys,
    parsed_name,
    read_lengths,
    sequence_of,
    shard_name,
    split_of,
)
from headrace.format.manifests.stored_census import StoredCensus
from headrace.format.snapshots.summaries import newest_summaries
from headrace.format.versioned_json import versioned_bytes
from headrace.stores.storage import StoredObject, open_storage


def entry(sequence=0, samples=("a", "b"), partition="train-0003", prefix=""):
    name = shard_name(prefix, split_of(partition), bucket_of(partition), sequence, f"{hash(samples) & 0xFFFFFF:012x}")
    return ShardEntry(name, 10, len(samples), 100, 1.5, "input", len(samples))


def manifest(*shards, partition="train-0003", wanted="w"):
    refusal = ManifestRejection("x.wav", "truncated", "cut off")
    return Manifest(partition, wanted, "source", {"samples_per_shard": 4}, shards, (refusal,))


@pytest.fixture
def storage():
    return open_storage("memory://")


def test_a_manifest_survives_a_round_trip_and_its_digest_covers_its_content():
    before = manifest(entry(), entry(1, ("c",)))
    after = Manifest.from_json(before.to_json(), "x")
    assert after == before
    assert after.digest == before.digest
    assert after.num_samples == 3
    assert manifest(entry(), wanted="other").digest != manifest(entry()).digest


@pytest.mark.parametrize("blob", [b"", b"[]", b"{}", b"{", b'{"headrace_manifest": 9}', b"\xff"])
def test_the_error_about_an_invalid_manifest_names_it(blob):
    with pytest.raises(FormatError, match=r"manifests/1\.json"):
        Manifest.from_json(blob, "manifests/1.json")


def test_a_numbered_manifest_has_the_digests_of_its_manifest():
    one = manifest(entry())
    assert NumberedManifest(1, one).wanted == one.wanted == "w"
    assert NumberedManifest(1, one).digest == one.digest
    assert NumberedManifest(1, one, "stored").digest == "stored"
    assert NumberedManifest(1, one, "stored") == NumberedManifest(1, one)


def test_names_of_partitions_and_files_are_taken_apart():
    assert (split_of("hold-out-0003"), bucket_of("hold-out-0003")) == ("hold-out", 3)
    assert keys_path("train-0003", 7, "0123456789abcdef") == "manifests/train-0003/00000007-0123456789ab.keys"
    assert shard_name("latent_", "train", 3, 12, "0123456789abcdef") == "latent_train_0003_000012-0123456789ab.tar"
    storage = open_storage("memory://")
    storage.write(keys_path("train-0003", 7, "0123456789abcdef"), b"")
    storage.write(manifest_path("train-0003", 7), b"")
    assert list(numbered_keys(storage)) == [("train-0003", 7, "manifests/train-0003/00000007-0123456789ab.keys")]


def test_another_format_version_is_an_error_although_the_file_is_complete():
    blob = manifest(entry()).to_json()
    other = blob.replace(b'"headrace_manifest": 1', b'"headrace_manifest": 2')
    crc32 = json.loads(blob)["crc32"].encode()
    other = other.replace(crc32, b"%08x" % zlib.crc32(other.replace(crc32, b"00000000")))
    with pytest.raises(FormatError, match=r"manifests/1\.json: format 2, this version of headrace reads 1"):
        Manifest.from_json(other, "manifests/1.json")


@pytest.mark.parametrize("change", [{"shards": 5}, {"surplus": 1}, {"refused": [{}]}, {"lengths": {"surplus": 1}}])
def test_the_error_about_a_manifest_of_another_form_names_it(change):
    content = json.loads(manifest(entry()).to_json()) | change
    del content["headrace_manifest"], content["crc32"]
    with pytest.raises(FormatError, match=r"manifests/1\.json: an incomplete manifest"):
        Manifest.from_json(versioned_bytes("headrace_manifest", content), "manifests/1.json")


def test_no_flipped_bit_of_a_manifest_is_accepted():
    """`gc` deletes files by the names in manifests."""
    sound = manifest(entry()).to_json()
    for bit in range(8 * len(sound)):
        blob = bytearray(sound)
        blob[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=r"manifests/1\.json"):
            Manifest.from_json(bytes(blob), "manifests/1.json")


def test_lengths_are_read_of_the_manifest_with_their_digest(storage):
    lengths = StoredCensus(8000, 3, [16, 17], 1, "AQI=")
    committed = commit_manifest(storage, replace(manifest(entry()), lengths=lengths), None)
    assert newest_manifest(storage, "train-0003").manifest.lengths == lengths
    assert read_lengths(storage, "train-0003", 1, committed.digest) == lengths
    with pytest.raises(FormatError, match=r"00000001\.json: does not have the digest in its snapshot"):
        read_lengths(storage, "train-0003", 1, "0" * 64)
    without = commit_manifest(storage, manifest(entry()), committed)
    assert read_lengths(storage, "train-0003", 2, without.digest) is None


def test_the_error_about_lengths_of_another_form_names_the_manifest(storage):
    content = json.loads(manifest(entry()).to_json()) | {"lengths": {"surplus": 1}}
    del content["headrace_manifest"], content["crc32"]
    blob = versioned_bytes("headrace_manifest", content)
    storage.write(manifest_path("train-0003", 1), blob)
    with pytest.raises(FormatError, match=r"00000001\.json: an incomplete manifest"):
        read_lengths(storage, "train-0003", 1, hashlib.sha256(blob).hexdigest())


def test_a_manifest_without_lengths_does_not_know_them(storage):
    content = json.loads(manifest(entry()).to_json())
    for name in ("headrace_manifest", "crc32", "lengths"):
        del content[name]
    blob = versioned_bytes("headrace_manifest", content)
    assert Manifest.from_json(blob, "x") == manifest(entry())
    storage.write(manifest_path("train-0003", 1), blob)
    assert read_lengths(storage, "train-0003", 1, newest_manifest(storage, "train-0003").digest) is None


def test_the_file_of_planned_keys_is_written_if_the_manifest_names_one(storage):
    first = commit_manifest(storage, manifest(entry()), None, b"unused")
    assert list(numbered_keys(storage)) == []
    commit_manifest(storage, replace(manifest(entry()), keys="0123456789abcdef"), first, b"a\n")
    assert storage.read(keys_path("train-0003", 2, "0123456789abcdef")) == b"a\n"


def test_only_names_of_shards_are_names_of_shards():
    assert is_shard_name("latent_train_0003_000012-0123456789ab.tar")
    assert not is_shard_name("train_0003_000012.tar")


def test_the_newest_number_counts(storage):
    assert newest_manifest(storage, "train-0003") is None
    first = commit_manifest(storage, manifest(wanted="1"), None)
    second = commit_manifest(storage, manifest(wanted="2"), first)
    assert (first.number, second.number) == (1, 2)
    assert newest_manifest(storage, "train-0003") == second
    other = commit_manifest(storage, manifest(partition="test-0000"), None)
    assert newest_manifests(storage) == {"test-0000": other, "train-0003": second}
    brief = {name: (found.number, found.wanted, found.digest) for name, found in newest_summaries(storage).items()}
    assert brief == {
        "test-0000": (1, other.manifest.wanted, other.manifest.digest),
        "train-0003": (2, second.manifest.wanted, second.manifest.digest),
    }


class Watched:
    """A store that counts reads and calls a function before each."""

    def __init__(self, storage, before_read=lambda path: None):
        self._storage, self._before_read, self.reads = storage, before_read, []

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def read(self, path, *more):
        self._before_read(path)
        self.reads.append(path)
        return self._storage.read(path, *more)


def test_the_format_version_is_1(storage):
    assert json.loads(manifest(entry()).to_json())["headrace_manifest"] == 1


def test_each_partition_costs_one_read(storage):
    for partition in ("train-0003", "test-0000"):
        first = commit_manifest(storage, manifest(partition=partition), None)
        commit_manifest(storage, manifest(partition=partition), first)
    watched = Watched(storage)
    assert {name: found.number for name, found in newest_manifests(watched).items()} == {
        "train-0003": 2,
        "test-0000": 2,
    }
    assert watched.reads == ["manifests/test-0000/00000002.json", "manifests/train-0003/00000002.json"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_manifest_that_gc_removes_during_a_read_is_replaced_by_a_newer_one(storage, times):
    latest = [commit_manifest(storage, manifest(), None)]

    def replace(path):
        if path == manifest_path("train-0003", latest[-1].number) and len(latest) <= times:
            latest.append(commit_manifest(storage, manifest(), latest[-1]))
            storage.delete(path)

    watched = Watched(storage, replace)
    assert newest_manifest(watched, "train-0003") == latest[-1]
    latest[:] = latest[-1:]
    assert newest_manifests(watched) == {"train-0003": latest[-1]}


def test_the_error_about_a_listed_but_missing_manifest_names_it(storage):
    commit_manifest(storage, manifest(), None)

    class Forgetful(Watched):
        def list(self, prefix):
            return [StoredObject("manifests/train-0003/00000007.json", 10, 0.0)]

    with pytest.raises(NotFoundError, match="manifests/train-0003/00000007"):
        newest_manifest(Forgetful(storage), "train-0003")


def test_a_partition_whose_manifests_are_all_removed_during_a_read_is_gone(storage):
    commit_manifest(storage, manifest(), None)
    other = commit_manifest(storage, manifest(partition="train-0004"), None)
    watched = Watched(storage, lambda path: storage.delete(path) if "train-0003" in path else None)
    assert newest_manifests(watched) == {"train-0004": other}


def test_partitions_with_a_common_name_prefix_are_distinguished(storage):
    commit_manifest(storage, manifest(partition="train-0001"), None)
    assert newest_manifest(storage, "train-000") is None
    commit_manifest(storage, manifest(partition="train-00010"), None)
    assert newest_manifest(storage, "train-0001").number == 1


def test_one_of_two_writers_succeeds_and_the_other_gets_an_error(storage):
    first = commit_manifest(storage, manifest(wanted="1"), None)
    commit_manifest(storage, manifest(wanted="winner"), first)
    with pytest.raises(AlreadyExistsError):
        commit_manifest(storage, manifest(wanted="loser"), first)
    assert newest_manifest(storage, "train-0003").manifest.wanted == "winner"


def test_the_name_of_a_shard_contains_its_place():
    name = shard_name("latent_", "train", 3, 12, "1a2b3c4d5e6f7777")
    assert name == "latent_train_0003_000012-1a2b3c4d5e6f.tar"
    parts = parsed_name(name)
    assert parts.groupdict() == {
        "prefix": "latent_",
        "split": "train",
        "bucket": "0003",
        "sequence": "000012",
        "digest": "1a2b3c4d5e6f",
        "suffix": ".tar",
    }
    assert sequence_of("hold-out_12345_1234567-1a2b3c4d5e6f.tar") == 1234567
    assert (split_of("hold-out-0007"), bucket_of("hold-out-0007")) == ("hold-out", 7)
    for wrong in ("train_000000.tar", "train_0003_000012-xyz.tar", "train_0003_000012-1a2b3c4d5e6f.tar.gz"):
        with pytest.raises(FormatError, match="not the name of a Headrace shard"):
            parsed_name(wrong)


def test_a_manifest_is_complete_only_with_every_shard_and_index():
    shard = entry()
    sizes = {shard.name: 10, shard.name.replace(".tar", ".idx"): 5}
    assert manifest(shard).is_whole(sizes)
    assert not manifest(shard).is_whole({**sizes, shard.name: 9})
    assert not manifest(shard).is_whole({shard.name: 10})
    assert not manifest(shard).is_whole({})
    assert not manifest(shard, entry(1)).is_whole(sizes)
    assert manifest().is_whole({})
