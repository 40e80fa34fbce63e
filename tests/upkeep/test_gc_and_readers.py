"""A reader that is open while gc removes its snapshot gives whole samples or an error that names gc, never fewer."""

import time

import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import NotFoundError
from headrace.stores.storage import LocalStorage
from headrace.streaming.world import World
from headrace.upkeep.gc import collect, find_garbage
from headrace.upkeep.takedown import SampleSearch
from tests.support.streaming.corpus import clips, write_dataset

FORMER = clips(16)
CHANGED = [*FORMER[:2], *clips(14, first=500)]
READERS = {
    "one by one": lambda out: StreamingDataset(remote=out, world=World(0, 1)),
    "batches": lambda out: StreamingDataLoader(StreamingDataset(remote=out, batch_size=1)),
    "skips bad samples": lambda out: StreamingDataLoader(
        StreamingDataset(remote=out, batch_size=1, on_bad_sample="skip")
    ),
    "latents": lambda out: StreamingDataLoader(StreamingDataset(remote=out, batch_size=1, latents=["crepe"])),
    "webdataset_loader": lambda out: webdataset_loader(out, batch_size=1, num_workers=0),
}


def remove_the_former(folder):
    """Change most samples, and remove the first snapshot."""
    write_dataset(folder, {"train": CHANGED}, per_shard=1, latents=True)
    output = LocalStorage(folder)
    collect(output, find_garbage(output, keep=1, now_seconds=time.time() + 1, min_age_seconds=0))


@pytest.mark.parametrize("reader", READERS)
def test_the_error_names_gc(tmp_path, reader):
    write_dataset(tmp_path, {"train": FORMER}, per_shard=1, latents=True)
    items = iter(READERS[reader](str(tmp_path)))
    next(items)
    remove_the_former(tmp_path)
    with pytest.raises(NotFoundError, match=r"train_.*: the shard is gone; was it removed by gc while a run still"):
        list(items)


def test_a_search_in_an_output_whose_gc_was_killed_says_so(tmp_path):
    write_dataset(tmp_path, {"train": FORMER[:2]}, per_shard=2)
    first = next(tmp_path.glob("audio/*.idx"))
    first.unlink()
    with pytest.raises(NotFoundError, match=r"train_.*\.tar: has no index, .*run headrace gc again"):
        SampleSearch(LocalStorage(tmp_path)).holdings(["clip00001"])
