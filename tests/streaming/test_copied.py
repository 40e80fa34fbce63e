"""Batches that are merely copied are those that are made row by row."""

import dataclasses

import numpy as np
import pytest
import torch

from headrace import Stream, StreamingDataset
from headrace.errors import SampleError
from headrace.index import ShardIndex
from headrace.streaming.batches import assemble, copied
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.copied import gathered
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.slots import SlotAllocator
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING, Rows
from headrace.streaming.settings import SampleConfig
from tests.streaming.corpus import clips, write_dataset
from tests.streaming.test_decode import write_tar

NUM_SAMPLES = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two data sets of latents, `a` and `b`."""
    folder = tmp_path_factory.mktemp("copied")
    for name, first in (("a", 0), ("b", 100)):
        write_dataset(folder / name, {"train": clips(NUM_SAMPLES, first=first)}, latents=True)
    return folder


def latents(folder, name="a"):
    return str(folder / name / "latents/crepe")


def prepared(dataset, allocator=None):
    """An epoch's batches, prepared."""
    assembler = dataset.assembler(allocator or Arena())
    return [assembler.prepare(plan) for plan in dataset.begin().plans()]


def batches(dataset):
    return filled(dataset, prepared(dataset))


def batches_together(dataset):
    """The same, all opened at once."""
    assembler = dataset.assembler(Arena())
    return filled(dataset, assembler.prepare_copied(list(dataset.begin().plans())))


def filled(dataset, found):
    made = []
    for batch in found:
        batch.fill(0, len(batch))
        made.append(batch.finish().to_dict(dataset.output))
    return made


SETTINGS = {
    "plain": lambda folder: {"remote": latents(folder)},
    "cropped": lambda folder: {"remote": latents(folder), "crop_frames": 3},
    "mixed": lambda folder: {"streams": [Stream(remote=latents(folder, name), repeat=1) for name in "ab"]},
    "in order": lambda folder: {"remote": latents(folder), "shuffle": False},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_they_are_equal_in_every_byte(folder, case, monkeypatch):
    settings = {"shuffle": True, "batch_size": 5, **SETTINGS[case](folder)}
    copied = batches(StreamingDataset(**settings))
    assert any(batch["is_padding"].any() for batch in copied)
    found = prepared(StreamingDataset(**settings))
    assert all(batch.is_copied for batch in found)
    together = batches_together(StreamingDataset(**settings))
    monkeypatch.setattr(assemble, "gathered", lambda *_: None)
    expected = batches(StreamingDataset(**settings))
    for one, other, row_by_row in zip(copied, together, expected, strict=True):
        assert one.keys() == other.keys() == row_by_row.keys()
        for name, value in row_by_row.items():
            for found in (one[name], other[name]):
                assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value


def test_batches_of_any_sizes_are_opened_together(folder):
    dataset = StreamingDataset(remote=latents(folder), batch_size=5, shuffle=True)
    assembler, plans = dataset.assembler(Arena()), list(dataset.begin().plans())
    cut = [plan if number % 2 else BatchPlan(plan.epoch, plan.rows[1:4], plan.positions[1:4])
           for number, plan in enumerate(plans)]  # fmt: skip
    together = filled(dataset, assembler.prepare_copied(cut))
    for one, other in zip(together, filled(dataset, map(assembler.prepare, cut)), strict=True):
        assert one["keys"] == other["keys"]
        assert torch.equal(one["encoder_hidden"], other["encoder_hidden"])
        assert torch.equal(one["encoder_length"], other["encoder_length"])


@pytest.mark.parametrize("limit", ["_SHARDS_TOGETHER", "_JSON_BYTES_TOGETHER"])
def test_batches_of_many_shards_or_much_json_are_not_opened_together(folder, monkeypatch, limit):
    """Files stay open until all are read, and a process may open only so many; their JSON lies in memory as long."""
    dataset = StreamingDataset(remote=latents(folder), batch_size=5, shuffle=True, shuffle_algo="full")
    assembler, plans = dataset.assembler(Arena()), list(dataset.begin().plans())
    shards = [set(dataset.reading.readers[0].locator.find(plan.rows.sample_ids)[0].tolist()) for plan in plans]
    monkeypatch.setattr(copied, limit, 2)
    assert len(shards[0] | shards[1]) > 2
    assert len(assembler.prepare_copied(plans)) == 1
    monkeypatch.undo()
    assert len(assembler.prepare_copied(plans)) == len(plans)


def test_a_batch_of_padding_alone_is_not_opened_with_others(folder):
    dataset = StreamingDataset(remote=latents(folder), batch_size=5)
    assembler, plan = dataset.assembler(Arena()), next(dataset.begin().plans())
    nothing = BatchPlan(0, Rows(np.zeros(5, np.int32), np.full(5, PADDING)), np.arange(5))
    assert assembler.prepare_copied([plan, nothing]) is None
    assert assembler.prepare_copied([plan, plan]) is not None


def test_only_raw_latents_without_a_transform_are_copied(folder):
    for settings in (
        {"remote": f"{folder}/a/audio"},
        {"remote": f"{folder}/a/audio", "latents": [latents(folder)]},
        {"remote": latents(folder), "transform": lambda sample: sample},
    ):
        found = prepared(StreamingDataset(batch_size=5, **settings))
        assert not any(batch.is_copied for batch in found)


def test_a_stream_of_audio_is_looked_at_once(folder, monkeypatch):
    reader = StreamingDataset(remote=f"{folder}/a/audio", batch_size=5).reading.readers[0]
    assert reader.local_files([0]) is None
    monkeypatch.setattr(reader.primary, "index", lambda shard: pytest.fail(f"asked for shard {shard} again"))
    assert reader.local_files([1]) is None


@pytest.mark.parametrize(
    ("column", "place", "value"), [("tensors", 1, 1 << 40), ("tensors", 2, 10_000), ("tensors", 3, 0), ("ranges", 1, 0)]
)
def test_an_index_that_contradicts_itself_is_not_trusted_with_memory(tmp_path, column, place, value):
    """A flipped bit in it must not make the kernel write past the end of a batch."""
    write_dataset(tmp_path, {"train": clips(5)}, latents=True)
    (path,) = (tmp_path / "latents/crepe").glob("*.idx")
    index = ShardIndex.from_bytes(path.read_bytes(), path.name)
    numbers = getattr(index, column).copy()
    numbers.reshape(5, -1)[3, place] = value
    path.write_bytes(dataclasses.replace(index, **{column: numbers}).to_bytes())
    dataset = StreamingDataset(remote=str(tmp_path / "latents/crepe"), batch_size=5)
    assert gathered(dataset.reading.readers, [next(dataset.begin().plans())], Recipe(SampleConfig(), 0)) is None


NO_JSON = {
    "cut off": (b'{"title": ', r"its \.json holds no JSON \(Expecting value"),
    "empty": (b"", r"its \.json holds no JSON"),
    "too deep": (b"[" * 100_000 + b"]" * 100_000, "RecursionError"),
}


@pytest.fixture(params=NO_JSON)
def case(request):
    return request.param


@pytest.fixture
def with_bad_json(tmp_path, case):
    """A foreign tar of latents; the JSON of its third sample is none."""
    members = {}
    for clip in clips(6):
        members |= {f"{clip.key}.pth": clip.pth(), f"{clip.key}.json": clip.json()}
    write_tar(tmp_path / "a.tar", (members | {"clip00002.json": NO_JSON[case][0]}).items())
    return tmp_path


def test_json_that_is_none_is_an_error_that_names_the_sample(with_bad_json, case):
    with pytest.raises(SampleError, match=rf"a\.tar: sample 'clip00002': {NO_JSON[case][1]}"):
        batches(StreamingDataset(remote=str(with_bad_json), batch_size=6))


def test_a_bad_sample_that_is_skipped_costs_no_other(with_bad_json):
    (batch,) = batches(StreamingDataset(remote=str(with_bad_json), batch_size=6, on_bad_sample="skip"))
    assert batch["is_padding"].tolist() == [False, False, True, False, False, False]
    assert batch["keys"] == ["clip00000", "clip00001", "", "clip00003", "clip00004", "clip00005"]
    for clip, hidden, length in zip(clips(6), batch["encoder_hidden"], batch["encoder_length"], strict=True):
        assert np.array_equal(hidden[:length].numpy(), clip.hidden()[:length])


def test_memory_of_a_batch_that_was_given_up_is_free_again():
    slots = SlotAllocator()
    given_up = slots.empty((1 << 20,), np.uint8)
    sent = slots.empty((1 << 20,), np.uint8)
    slots.sent([slots.slot_of(sent.data)])
    assert slots.empty((1 << 20,), np.uint8).ctypes.data == given_up.ctypes.data
    assert len(slots.unseen()) == 2
