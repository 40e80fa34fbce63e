"""Epochs of a dataset, one after the other, in this process."""

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError, SampleError
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view


@pytest.fixture
def reader_of(dataset_folder):
    def make(split="test", **settings):
        return StreamingDataset(remote=f"{dataset_folder}/audio", split=split, batch_size=2, **settings).epochs

    return make


KEYS = [f"clip{number:05d}" for number in range(200, 207)]


def test_samples_of_an_epoch_come_with_padding_at_its_end(reader_of):
    epochs = reader_of()
    assert [sample["__key__"] for sample in epochs.samples()] == [*KEYS, ""]
    assert epochs.progress.next_epoch == 1


def test_a_state_from_the_middle_goes_on_there(reader_of):
    epochs = reader_of()
    samples = epochs.samples()
    for _ in range(3):
        next(samples)
    saved = epochs.progress.state(None, from_beginning=False)
    resumed = reader_of()
    resumed.load(saved)
    assert [sample["__key__"] for sample in resumed.samples()] == KEYS[3:]


def test_a_state_after_the_last_batch_begins_the_next_epoch(reader_of):
    epochs = reader_of()
    saved = epochs.progress.state(8, from_beginning=True)
    epochs.load(saved)
    assert epochs.progress.next_epoch == 1


def test_bad_samples_are_padding_up_to_the_most_that_may_be(reader_of):
    def refuse(sample):
        if sample["__key__"] in KEYS[1:3]:
            raise ValueError("no")
        return sample

    found = [sample["__key__"] for sample in reader_of(transform=refuse, on_bad_sample="skip").samples()]
    assert found == [KEYS[0], "", "", *KEYS[3:], ""]
    with pytest.raises(SampleError, match=KEYS[2]):
        list(reader_of(transform=refuse, on_bad_sample="skip", max_bad_samples=1).samples())
    with pytest.raises(SampleError, match=KEYS[1]):
        list(reader_of(transform=refuse).samples())


def test_an_epoch_of_which_nothing_fills_a_batch_is_a_warning(dataset_folder):
    epochs = StreamingDataset(remote=f"{dataset_folder}/audio", split="test", batch_size=8, last_batch="drop").epochs
    with pytest.warns(UserWarning, match="no batch will come: the epoch's 7 samples fill no global batch"):
        epochs.begin()


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Six samples, a split without any, and a view that takes none of one split."""
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(6), "test": clips(2, first=10), "none": []})
    write_view(folder, "first", lambda key: int(key < "clip00010"))
    return folder


@pytest.mark.parametrize("fields", [None, ["audio"]])
@pytest.mark.parametrize(
    "empty",
    [{"split": "none"}, {"split": "test", "view": "first"}, {"window_seconds": 9, "last_window": "drop"}],
    ids=str,
)
def test_a_choice_without_samples_is_a_warning(output, tmp_path, empty, fields):
    dataset = StreamingDataset(remote=str(output), local=str(tmp_path), fields=fields, **empty)
    with pytest.warns(UserWarning, match="no batch will come: the streams have no samples; look at split, view"):
        assert list(StreamingDataLoader(dataset)) == []


def test_a_function_of_batches_is_not_for_single_samples_and_local_shards_need_no_prefetching(reader_of):
    with pytest.raises(ConfigError, match="batch_transform works on batches"):
        next(reader_of(batch_transform=dict).samples())
    epochs = reader_of()
    assert epochs.prefetcher(epochs.next_run()) is None
