import pytest

from headrace.errors import AlreadyExistsError, FormatError
from headrace.manifests import (
    Manifest,
    Refusal,
    ShardEntry,
    bucket_of,
    commit_manifest,
    newest_manifest,
    newest_manifests,
    newest_summaries,
    parsed_name,
    sequence_of,
    shard_name,
    split_of,
)
from headrace.storage import open_storage


def entry(sequence=0, samples=("a", "b"), partition="train-0003", prefix=""):
    name = shard_name(prefix, split_of(partition), bucket_of(partition), sequence, f"{hash(samples) & 0xFFFFFF:012x}")
    return ShardEntry(name, 10, len(samples), 100, 1.5, "input", tuple(samples))


def manifest(*shards, partition="train-0003", wanted="w"):
    refusal = Refusal("x.wav", "truncated", "cut off")
    return Manifest(partition, wanted, "source", {"samples_per_shard": 4}, shards, (refusal,))


@pytest.fixture
def storage():
    return open_storage("memory://")


def test_a_manifest_comes_back_and_its_digest_is_its_content():
    before = manifest(entry(), entry(1, ("c",)))
    after = Manifest.from_json(before.to_json(), "x")
    assert after == before
    assert after.digest == before.digest
    assert after.num_samples == 3
    assert manifest(entry(), wanted="other").digest != manifest(entry()).digest


@pytest.mark.parametrize("blob", [b"", b"[]", b"{}", b"{", b'{"headrace_manifest": 9}', b"\xff"])
def test_what_is_no_manifest_is_refused_by_name(blob):
    with pytest.raises(FormatError, match=r"manifests/1\.json"):
        Manifest.from_json(blob, "manifests/1.json")


@pytest.mark.parametrize("change", [{"shards": 5}, {"surplus": 1}, {"refused": [{}]}])
def test_a_manifest_of_another_form_is_refused_by_name(change):
    import json

    content = json.loads(manifest(entry()).to_json()) | change
    with pytest.raises(FormatError, match=r"manifests/1\.json"):
        Manifest.from_json(json.dumps(content).encode(), "manifests/1.json")


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


def test_partitions_whose_names_begin_alike_are_apart(storage):
    commit_manifest(storage, manifest(partition="train-0001"), None)
    assert newest_manifest(storage, "train-000") is None
    commit_manifest(storage, manifest(partition="train-00010"), None)
    assert newest_manifest(storage, "train-0001").number == 1


def test_of_two_writers_one_wins_and_the_other_hears_of_it(storage):
    first = commit_manifest(storage, manifest(wanted="1"), None)
    commit_manifest(storage, manifest(wanted="winner"), first)
    with pytest.raises(AlreadyExistsError):
        commit_manifest(storage, manifest(wanted="loser"), first)
    assert newest_manifest(storage, "train-0003").manifest.wanted == "winner"


def test_names_say_where_a_shard_belongs():
    name = shard_name("latent_", "train", 3, 12, "1a2b3c4d5e6f7777")
    assert name == "latent_train_0003_000012-1a2b3c4d5e6f.tar"
    parts = parsed_name(name)
    assert parts.groupdict() == {
        "prefix": "latent_",
        "split": "train",
        "bucket": "0003",
        "sequence": "000012",
        "digest": "1a2b3c4d5e6f",
    }
    assert sequence_of("hold-out_12345_1234567-1a2b3c4d5e6f.tar") == 1234567
    assert (split_of("hold-out-0007"), bucket_of("hold-out-0007")) == ("hold-out", 7)
    for wrong in ("train_000000.tar", "train_0003_000012-xyz.tar", "train_0003_000012-1a2b3c4d5e6f.tar.gz"):
        with pytest.raises(FormatError, match="not the name of a Headrace shard"):
            parsed_name(wrong)


def test_a_manifest_is_whole_only_with_every_shard_and_index():
    shard = entry()
    sizes = {shard.name: 10, shard.name.replace(".tar", ".idx"): 5}
    assert manifest(shard).is_whole(sizes)
    assert not manifest(shard).is_whole({**sizes, shard.name: 9})
    assert not manifest(shard).is_whole({shard.name: 10})
    assert not manifest(shard).is_whole({})
