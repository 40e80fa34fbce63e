"""The samples without latents are collected from the manifests of a set of latents."""

import pytest

from headrace.assemble.latent_rejections import LatentRejections, newest_rejections, snapshot_rejections
from headrace.errors import NotFoundError
from headrace.format.manifests.manifests import (
    Manifest,
    ManifestRejection,
    ShardEntry,
    commit_manifest,
    newest_manifest,
)
from headrace.stores.storage import open_storage


def refusal(key):
    return ManifestRejection(f"{key}.wav", "non_finite", "NaN", key)


def stored(storage, partition, refused, num_samples):
    shard = ShardEntry(
        f"latent_{partition.replace('-', '_')}_000000-1a2b3c4d5e6f.tar", 10, num_samples, 0, 1.0, "digest", num_samples
    )
    manifest = Manifest(partition, "wanted", "source", {}, (shard,), tuple(map(refusal, refused)))
    commit_manifest(storage, manifest, newest_manifest(storage, partition))


@pytest.fixture
def storage():
    storage = open_storage("memory://")
    stored(storage, "train-0000", ["old"], 5)
    stored(storage, "train-0000", ["a", "b"], 6)
    stored(storage, "train-0001", ["c"], 4)
    return storage


def test_the_newest_manifests_count_and_a_partition_without_one_has_none(storage):
    found = newest_rejections(storage, ["train-0001", "train-0000", "train-0002"])
    assert [row.key for row in found.refused] == ["c", "a", "b"]
    assert (found.num_samples, found.share) == (10, 0.3)


def test_a_snapshot_has_the_rejections_of_its_own_manifests(storage):
    assert [row.key for row in snapshot_rejections(storage, {"train-0000": 1}).refused] == ["old"]
    with pytest.raises(NotFoundError):
        snapshot_rejections(storage, {"train-0000": 3})


def test_the_share_of_nothing_is_zero():
    assert LatentRejections((), 0).share == 0
