"""Summaries of the newest manifests: from the snapshot, or from manifests that are younger."""

from headrace.format.snapshots.snapshots import read_snapshot
from headrace.format.snapshots.summaries import newest_summaries
from headrace.stores.storage import LocalStorage
from tests.support.commits import commit, put


def test_a_manifest_that_was_made_again_after_the_snapshot_is_read(tmp_path):
    storage = LocalStorage(tmp_path)
    put(storage, "train-0001", 3, wanted="before")
    commit(storage)
    storage.delete("manifests/train-0001/00000001.json")
    put(storage, "train-0001", 4, wanted="after")
    assert newest_summaries(storage)["train-0001"].wanted == "after"
    commit(storage)
    assert read_snapshot(storage).snapshot.num_samples == 4
