"""A dataset in the loaders of others delivers each sample as often, or there is an error or a warning."""

import itertools
import warnings
from collections import Counter
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from headrace import FrameBudget, LengthBuckets, Stream, StreamingDataLoader, StreamingDataset, World, collate
from headrace.errors import ConfigError


def open_dataset(folder, rank=0, size=1, **more):
    return StreamingDataset(
        remote=f"{folder}/audio", split="train", shuffle=True, world=World(rank, size), **{"batch_size": 4} | more
    )


def mixed(folder, sizes):
    """Three batches of each stream, of a size of its own."""
    streams = [
        Stream(f"{folder}/audio", split=split, batch_size=size, choose=3 * size)
        for split, size in zip(("train", "test"), sizes, strict=True)
    ]
    return StreamingDataset(streams=streams, shuffle=True, batch_size=8, batching_method="per_stream")


def epoch_of(loader):
    """The keys that a trainer gets, which stops after `len(loader)` batches."""
    num_batches = len(loader)
    batches = list(itertools.islice(iter(loader), num_batches))
    return [key for batch in batches for key in (batch["keys"] if "keys" in batch else [batch["__key__"]]) if key]


@pytest.mark.medium
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize("batch_size", [None, 2, 4, 5])
def test_a_data_loader_that_stops_at_its_length_delivers_all_or_warns(dataset_folder, batch_size, num_workers, size):
    found = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rank in range(size):
            dataset = open_dataset(dataset_folder, rank, size, fields=["metadata"])
            join = collate if batch_size else None
            loader = DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=join)
            for _ in range(2):
                found.update(epoch_of(loader))
    is_warned = any("use StreamingDataLoader" in str(one.message) for one in caught)
    assert is_warned == (batch_size == 5 and num_workers > 1)
    assert is_warned or (len(found) == 53 and set(found.values()) == {2})


def test_the_length_warns_if_the_batches_of_the_dataset_differ_in_size(dataset_folder):
    dataset = open_dataset(dataset_folder, batching=FrameBudget(seconds_per_batch=20))
    with pytest.warns(UserWarning, match="batches of several sizes: .*use StreamingDataLoader"):
        len(DataLoader(dataset, batch_size=4, num_workers=2))


def test_the_length_warns_if_batches_have_the_wanted_size_only_on_average(dataset_folder):
    dataset = mixed(dataset_folder, (9, 7))
    assert len(dataset) == 8 * dataset.num_batches
    with pytest.warns(UserWarning, match="batches of several sizes: .*use StreamingDataLoader"):
        len(DataLoader(dataset, batch_size=8, num_workers=2))


@pytest.mark.medium
@pytest.mark.parametrize("dispatch", [True, False, None])
def test_accelerate_in_one_process_delivers_what_our_loader_does(dataset_folder, dispatch):
    """`None` is what Hugging Face's Trainer passes: Accelerate then dispatches, and measures the first field."""
    prepare = pytest.importorskip("accelerate.data_loader").prepare_data_loader
    loader = DataLoader(open_dataset(dataset_folder), batch_size=4, collate_fn=collate)
    prepared = prepare(loader, num_processes=1, process_index=0, dispatch_batches=dispatch, put_on_device=True)
    expected = StreamingDataLoader(open_dataset(dataset_folder))
    for _ in range(2):
        same(list(prepared), list(expected))


@pytest.mark.parametrize("dispatch", [True, False])
def test_accelerate_on_two_ranks_is_an_error_before_a_sample_is_read(dataset_folder, dispatch):
    prepare = pytest.importorskip("accelerate.data_loader").prepare_data_loader

    def prepared(dataset):
        loader = DataLoader(dataset, batch_size=4, collate_fn=collate)
        return prepare(loader, num_processes=2, process_index=0, dispatch_batches=dispatch, put_on_device=True)

    for ask in (len, lambda loader: next(iter(loader))):
        with pytest.raises(ConfigError, match=r"pass StreamingDataLoader\(dataset\) to accelerator.prepare"):
            ask(prepared(open_dataset(dataset_folder, 0, 2)))
    assert len(prepared(open_dataset(dataset_folder)))


def test_accelerates_loader_that_skips_batches_divides_nothing(dataset_folder):
    skip = pytest.importorskip("accelerate.data_loader").skip_first_batches
    expected = [batch["keys"] for batch in StreamingDataLoader(open_dataset(dataset_folder, 1, 2))]
    rest = skip(StreamingDataLoader(open_dataset(dataset_folder, 1, 2)), 2)
    assert len(rest) == len(expected) - 2
    assert [batch["keys"] for batch in rest] == expected[2:]


def with_tokens(sample):
    return sample | {"tokens": list(range(int(sample["__key__"][-1])))}


def counted(batch):
    return batch | {"size": len(batch["keys"])}


SKIPPED = {
    "rows": {},
    "length buckets": {"batching": LengthBuckets(2)},
    "crops": {"crop_frames": 200},
    "drop": {"last_batch": "drop"},
    "excluded": {"exclude": ["clip00003"]},
    "equal own sizes": partial(mixed, sizes=(8, 8)),
    "frame budget": {"batching": FrameBudget(frames_per_batch=8 * 900)},
    "own sizes": partial(mixed, sizes=(6, 2)),
    "windows": {"window_seconds": 0.05},
    "padded fields": {"transform": with_tokens, "pad": {"tokens": 7}},
    "numpy": {"output": "numpy"},
    "batch_transform": {"batch_transform": counted},
    "valid_frames": {"valid_frames": True},
}


@pytest.mark.parametrize("way", SKIPPED)
def test_accelerate_skips_the_batches_of_our_loader_or_there_is_an_error(dataset_folder, way):
    skip = pytest.importorskip("accelerate.data_loader").skip_first_batches
    more = SKIPPED[way]

    def loader():
        dataset = open_dataset(dataset_folder, **more) if isinstance(more, dict) else more(dataset_folder)
        return StreamingDataLoader(dataset)

    if list(SKIPPED).index(way) < 6:
        same(list(skip(loader(), 2)), list(loader())[2:])
    else:
        with pytest.raises(ConfigError, match=r"skip_first_batches.* load_state_dict"):
            skip(loader(), 2)


@pytest.mark.medium
@pytest.mark.parametrize("dispatch", [True, False])
def test_accelerate_warns_if_it_skips_batches_before_a_loaded_state_once_more(dataset_folder, dispatch):
    accelerate = pytest.importorskip("accelerate.data_loader")

    def keys_after_skipping(dataset):
        loader = DataLoader(dataset, batch_size=4, collate_fn=collate)
        prepared = accelerate.prepare_data_loader(loader, dispatch_batches=dispatch, put_on_device=True)
        return [batch["keys"] for batch in accelerate.skip_first_batches(prepared, 2)]

    expected = [batch["keys"] for batch in StreamingDataLoader(open_dataset(dataset_folder))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keys_after_skipping(open_dataset(dataset_folder)) == expected[2:]
    resumed = open_dataset(dataset_folder)
    resumed.load_state_dict(resumed.state_dict(8))
    with pytest.warns(UserWarning, match="are skipped once more: .*ignore_data_skip=True"):
        assert keys_after_skipping(resumed) == expected[4:]


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            equal = torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
            assert equal, name
