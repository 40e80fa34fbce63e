"""Shared parts of the drills: a dataset to break, and proof that all of it arrived."""

import time

import numpy as np

from headrace import StreamingDataLoader, StreamingDataset


def make(remote, cache=None, **more):
    more = {"split": "train", "batch_size": 8, "shuffle": True, "local": cache and str(cache)} | more
    return StreamingDataset(remote=remote, **more)


def check(dataset, corpus, **loader_settings):
    """Every sample arrives once, as it was written. Returns the loader."""
    by_key = {clip.key: clip for clip in corpus}
    loader = StreamingDataLoader(dataset, **loader_settings)
    seen = []
    for batch in loader:
        for row, key in enumerate(batch["keys"]):
            if key:
                seen.append(key)
                count = int(batch["num_frames"][row])
                assert np.array_equal(batch["audio"][row, :, :count].numpy(), by_key[key].audio())
    assert sorted(seen) == sorted(by_key)
    return loader


def keep_all(dataset):
    """Once this returns, every shard is in the cache: a loop that ends drops the downloads that it had not begun."""
    for shard in range(dataset._streams.num_shards):
        dataset.prepare_shard(shard)


def keys_once_kept(loader, folder, num_shards):
    """The keys of an epoch that ends only when this many shards have come into the cache folder, and no others do.

    A loader downloads shards ahead, but does not wait for those that the last batches did not need any more.
    """
    batches = iter(loader)
    found = list(next(batches)["keys"])
    wait_for(lambda: len(list(folder.glob("*.tar"))) >= num_shards)
    found += [key for batch in batches for key in batch["keys"]]
    assert len(list(folder.glob("*.tar"))) == num_shards
    return found


def wait_for(condition, seconds=60.0):
    """Until it holds, which may be for a moment only."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s"
        time.sleep(0.01)
