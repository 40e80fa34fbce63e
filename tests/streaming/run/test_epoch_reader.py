"""Epochs of a dataset, one after the other, in this process."""

import pytest

from headrace import StreamingDataset
from headrace.errors import ConfigError, SampleError


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


def test_a_function_of_batches_is_not_for_single_samples_and_local_shards_need_no_prefetching(reader_of):
    with pytest.raises(ConfigError, match="batch_transform works on batches"):
        next(reader_of(batch_transform=dict).samples())
    epochs = reader_of()
    assert epochs.prefetcher(epochs.next_run()) is None
