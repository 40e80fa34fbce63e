"""Batches that are made sample by sample: padding, skipped samples, and batches of nothing else."""

import numpy as np
import pytest

from headrace import StreamingDataset
from headrace.errors import SampleError
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.batches.sample_batch import SampleBatch, whole_sample
from headrace.streaming.settings import SampleSettings


@pytest.fixture
def rows(dataset_folder):
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batch_size=3)
    return dataset.epochs.assembler().rows(dataset.epochs.next_run().plan(0))


def made(rows, transform, pattern=None, **settings):
    processing = SampleProcessing(SampleSettings(transform=transform, **settings), 1)
    batch = SampleBatch(rows, processing, 0, Arena(0), lambda: whole_sample(pattern, processing, 0))
    for place in range(len(batch)):
        batch.fill(place, place + 1)
    return batch.finish()


def refuse_second(rows):
    def transform(sample):
        if sample["__key__"] == rows[1].primary.key:
            raise ValueError("no")
        return sample

    return transform


def test_rows_are_transformed_and_padding_has_their_shapes(rows):
    batch = made([rows[0], None, rows[1]], lambda sample: sample | {"label": 7})
    assert batch.keys == [rows[0].primary.key, "", rows[1].primary.key]
    assert batch.is_padding.tolist() == [False, True, False]
    assert batch.stacked["label"].values.tolist() == [7, 0, 7]
    assert not batch.audio.fields["audio"][1].any()


def test_a_sample_that_fails_is_named_or_becomes_padding(rows):
    with pytest.raises(SampleError, match=f"sample '{rows[1].primary.key}': ValueError: no"):
        made(rows, refuse_second(rows))
    batch = made(rows, refuse_second(rows), on_bad_sample="skip")
    assert batch.is_padding.tolist() == [False, True, False]
    assert len(batch.errors) == 1


def test_a_batch_of_padding_alone_has_the_fields_of_a_sample(rows):
    batch = made([None, None], lambda sample: sample, rows[0])
    assert batch.keys == ["", ""]
    assert batch.audio.fields["audio"].shape == (2, 1, rows[0].primary.num_frames)
    assert not np.any(batch.audio.fields["audio"])
