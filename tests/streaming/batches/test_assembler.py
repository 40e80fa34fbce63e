"""Batches are made the fastest way that fits them, and padding has the shapes of samples."""

import numpy as np
import pytest

from headrace import StreamingDataset
from headrace.streaming.batches.batch_transform import TransformedBatch
from headrace.streaming.batches.copied_batch import CopiedBatch
from headrace.streaming.batches.in_place_batch import InPlaceBatch
from headrace.streaming.batches.sample_batch import SampleBatch
from headrace.streaming.settings import ArrayType


def opened(folder, part, **settings):
    dataset = StreamingDataset(remote=f"{folder}/{part}", split="train", batch_size=4, output="numpy", **settings)
    run, assembler = dataset.epochs.next_run(), dataset.epochs.assembler()
    return assembler, run.plan(0)


@pytest.mark.parametrize(
    ("part", "settings", "kind"),
    [
        ("latents/crepe", {}, CopiedBatch),
        ("latents/crepe", {"crop_frames": 2}, CopiedBatch),
        ("latents/crepe", {"transform": dict}, SampleBatch),
        ("audio", {}, InPlaceBatch),
        ("audio", {"sample_rate": 8000}, InPlaceBatch),
        ("audio", {"sample_rate": 4000}, SampleBatch),
        ("audio", {"batch_transform": dict}, TransformedBatch),
    ],
)
def test_a_batch_is_made_the_fastest_way_that_fits(dataset_folder, part, settings, kind):
    assembler, plan = opened(dataset_folder, part, **settings)
    assert type(assembler.open(plan)) is kind


@pytest.mark.parametrize("part", ["audio", "latents/crepe"])
def test_all_ways_give_the_same_batch(dataset_folder, part):
    found = []
    for settings in ({}, {"transform": dict}):
        assembler, plan = opened(dataset_folder, part, **settings)
        batch = assembler.open(plan)
        batch.fill(0, len(batch))
        found.append(batch.finish().to_dict(ArrayType.NUMPY))
    first, second = found
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_pattern_has_the_fields_of_a_sample(dataset_folder):
    assembler, plan = opened(dataset_folder, "audio")
    pattern = assembler.pattern(0)
    assert pattern["audio"].shape[0] == 1
    assert pattern.keys() == assembler.sample(assembler.rows(plan)[0], 0).keys()
