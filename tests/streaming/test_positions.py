"""Position and length of a dataset, and the form of its padding, seen through the dataset itself."""

import itertools
import sys
import types

import pytest

from headrace import FrameBudget, Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import StateError
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.modes import MODES, open_mode


def test_a_state_of_one_split_is_rejected_on_another_of_as_many_samples(tmp_path):
    write_dataset(tmp_path, {"test": clips(9), "validation": clips(9, first=50)})
    remote = f"{tmp_path}/audio"
    state = StreamingDataset(remote=remote, split="test", batch_size=3).state_dict()
    with pytest.raises(StateError, match=r"split 'test' .*pass split='test'"):
        StreamingDataset(remote=remote, split="validation", batch_size=3).load_state_dict(state)


@pytest.mark.medium
@pytest.mark.parametrize("mode", MODES)
def test_a_state_saved_inside_a_batch_loads_and_loses_no_sample(dataset_folder, mode):
    """In modes where batches make the order, a cut batch comes again as a whole.

    Where only padding would follow, the next epoch does.
    """
    complete = open_mode(dataset_folder, mode, batch_size=48)
    whole, following = ([sample["__key__"] for sample in complete] for _ in range(2))
    dataset = open_mode(dataset_folder, mode, batch_size=48)
    for _ in itertools.islice(dataset, 61):
        pass
    resumed = open_mode(dataset_folder, mode, batch_size=48)
    resumed.load_state_dict(dataset.state_dict())
    rest = [sample["__key__"] for sample in resumed]
    if mode in {"plain", "shuffled", "full", "drop", "mixed"}:
        assert list(filter(None, rest)) == list(filter(None, whole[61:] if any(whole[61:]) else following))
    else:
        assert (whole[-len(rest) :] if any(whole[61:]) else following) == rest
        assert len(rest) >= len(whole) - 61
    if "budget" not in mode:  # which counts samples alone
        counted = open_mode(dataset_folder, mode, batch_size=48)
        counted.load_state_dict(dataset.state_dict(61))
        assert [sample["__key__"] for sample in counted] == rest


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    "how",
    [
        {"batching_method": "per_stream"},
        {"batching_method": "stratified", "batch_size": 10},
        {"batching": FrameBudget(48 * 900, batch_multiple=8), "own": False},
    ],
    ids=str,
)
def test_a_dataset_is_as_long_as_what_it_gives(dataset_folder, how, size):
    own = how.get("own", True)
    streams = [
        Stream(f"{dataset_folder}/audio", split=split, batch_size=rows if own else None)
        for split, rows in (("train", 6), ("test", 4))
    ]
    more = {"batch_size": 8} | {name: value for name, value in how.items() if name != "own"}
    more["batch_size"] //= size
    dataset = StreamingDataset(streams=streams, shuffle=True, world=World(0, size), **more)
    assert len(dataset) == len(list(dataset))


def test_a_stratified_dataset_without_samples_has_a_state(tmp_path):
    write_dataset(tmp_path, {"train": clips(4), "test": []})
    streams = [Stream(f"{tmp_path}/audio", split="test", name=name) for name in "ab"]
    dataset = StreamingDataset(streams=streams, batch_size=2, batching_method="stratified")
    assert list(dataset) == []
    dataset.load_state_dict(dataset.state_dict())


def test_a_batch_of_padding_alone_has_the_fields_of_every_other(dataset_folder):
    def last(rank):
        dataset = StreamingDataset(
            remote=f"{dataset_folder}/audio", split="test", world=World(rank, 8), transform=lambda s: s | {"label": 7}
        )
        return list(StreamingDataLoader(dataset))[-1]

    first, padding = last(0), last(7)
    assert set(padding) == set(first)
    assert padding["is_padding"].all()
    assert padding["label"].tolist() == [0]


@pytest.mark.parametrize("mode", MODES)
def test_the_length_counts_what_comes_or_if_asked_the_whole_epoch(dataset_folder, mode):
    loader = StreamingDataLoader(open_mode(dataset_folder, mode, batch_size=8))
    whole = len(loader)
    done = min(2, whole - 1)
    batches = iter(loader)
    for _ in range(done):
        next(batches)
    state = loader.state_dict()
    batches.close()
    for asked, expected in ((None, whole - done), (False, whole - done), (True, whole)):
        resumed = StreamingDataLoader(open_mode(dataset_folder, mode, batch_size=8), whole_epoch_len=asked)
        assert len(resumed) == whole
        resumed.load_state_dict(state)
        assert len(resumed) == expected
        lengths = [len(resumed) for _ in resumed]
        assert lengths == [expected] * (whole - done)


def test_after_a_change_of_mixture_the_whole_epoch_counts_what_came_before(dataset_folder):
    def loader(*splits, **more):
        streams = [Stream(f"{dataset_folder}/audio", split=split, name=split) for split in splits]
        dataset = StreamingDataset(streams=streams, batch_size=4, change_streams=True)
        return StreamingDataLoader(dataset, **more)

    alone = loader("train")
    batches = iter(alone)
    next(batches)
    state = alone.state_dict()
    batches.close()
    changed = loader("train", "test", whole_epoch_len=True)
    changed.load_state_dict(state)
    assert len(changed) == 1 + len(list(changed)) == 15


@pytest.mark.parametrize("name", ["pytorch_lightning", "lightning.pytorch", "accelerate", "transformers"])
def test_a_trainer_that_is_only_imported_does_not_change_the_length(dataset_folder, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for asked, expected in ((None, 6), (False, 6), (True, 7)):
        dataset = StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batch_size=8)
        dataset.load_state_dict(dataset.state_dict(8))
        assert len(StreamingDataLoader(dataset, whole_epoch_len=asked)) == expected
