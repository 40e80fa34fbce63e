"""Batches of the copy-only fast path equal those that are made row by row."""

import dataclasses

import numpy as np
import pytest
import torch

from headrace import Stream, StreamingDataset
from headrace.errors import FormatError, SampleError
from headrace.format.indexes.index_files import parse_index
from headrace.streaming.batches import assembler as assembler_module
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.copied_batch import CopiedBatch, copy_plan
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING, Rows
from headrace.streaming.settings import SampleSettings
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.tars import write_tar

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


def opened(dataset, allocator=None):
    """An epoch's batches, opened."""
    assembler = dataset.epochs.assembler(allocator or Arena())
    return [assembler.open(plan) for plan in dataset.epochs.begin().plans()]


def batches(dataset):
    return filled(dataset, opened(dataset))


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
    found = opened(StreamingDataset(**settings))
    assert all(isinstance(batch, CopiedBatch) for batch in found)
    monkeypatch.setattr(assembler_module, "copy_plan", lambda *_: None)
    assert not any(isinstance(batch, CopiedBatch) for batch in opened(StreamingDataset(**settings)))
    for one, row_by_row in zip(copied, batches(StreamingDataset(**settings)), strict=True):
        assert one.keys() == row_by_row.keys()
        for name, value in row_by_row.items():
            assert torch.equal(one[name], value) if isinstance(value, torch.Tensor) else one[name] == value


@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_a_batch_may_have_any_number_of_rows(folder, num_rows):
    dataset = StreamingDataset(remote=latents(folder), batch_size=5, shuffle=True)
    assembler, plan = dataset.epochs.assembler(Arena()), next(dataset.epochs.begin().plans())
    part = BatchPlan(plan.epoch, plan.rows[:num_rows], plan.positions[:num_rows], patient=True)
    (found,) = filled(dataset, [assembler.open(part)])
    (whole,) = filled(dataset, [assembler.open(plan)])
    assert found["keys"] == whole["keys"][:num_rows]
    num_frames = found["encoder_hidden"].shape[1]
    assert torch.equal(found["encoder_hidden"], whole["encoder_hidden"][:num_rows, :num_frames])
    assert torch.equal(found["encoder_length"], whole["encoder_length"][:num_rows])


def test_a_batch_of_padding_alone_is_not_copied(folder):
    dataset = StreamingDataset(remote=latents(folder), batch_size=5)
    nothing = BatchPlan(0, Rows(np.zeros(5, np.int32), np.full(5, PADDING)), np.arange(5), patient=True)
    found = dataset.epochs.assembler(Arena()).open(nothing)
    assert not isinstance(found, CopiedBatch)
    found.fill(0, 5)
    assert found.finish().is_padding.all()


def test_only_raw_latents_without_a_transform_are_copied(folder):
    for settings in (
        {"remote": f"{folder}/a/audio"},
        {"remote": f"{folder}/a/audio", "latents": [latents(folder)]},
        {"remote": latents(folder), "transform": lambda sample: sample},
    ):
        found = opened(StreamingDataset(batch_size=5, **settings))
        assert not any(isinstance(batch, CopiedBatch) for batch in found)


def test_a_stream_of_audio_is_looked_at_once(folder, monkeypatch):
    reader = StreamingDataset(remote=f"{folder}/a/audio", batch_size=5).reading.readers[0]
    assert reader.local_shards([0]) is None
    monkeypatch.setattr(reader.primary, "index", lambda shard: pytest.fail(f"asked for shard {shard} again"))
    assert reader.local_shards([1]) is None


@pytest.mark.parametrize(
    ("column", "place", "value"), [("tensors", 1, 1 << 40), ("tensors", 2, 10_000), ("tensors", 3, 0), ("ranges", 1, 0)]
)
def test_an_index_that_contradicts_itself_is_not_trusted_with_memory(tmp_path, column, place, value):
    """A flipped bit in it must not make the kernel write past the end of a batch."""
    write_dataset(tmp_path, {"train": clips(5)}, latents=True)
    (path,) = (tmp_path / "latents/crepe").glob("*.idx")
    index = parse_index(path.read_bytes(), path.name)
    numbers = getattr(index, column).copy()
    numbers.reshape(5, -1)[3, place] = value
    path.write_bytes(dataclasses.replace(index, **{column: numbers}).to_bytes())
    dataset = StreamingDataset(remote=str(tmp_path / "latents/crepe"), batch_size=5)
    with pytest.raises(FormatError, match=rf"{path.name}: the index contradicts itself: .* sample 'clip00003'"):
        copy_plan(dataset.reading.readers, next(dataset.epochs.begin().plans()), SampleProcessing(SampleSettings(), 0))


NO_JSON = {
    "cut off": (b'{"title": ', r"its \.json is not valid JSON \(Expecting value"),
    "empty": (b"", r"its \.json is not valid JSON"),
    "too deep": (b"[" * 100_000 + b"]" * 100_000, r"its \.json is not valid JSON \(brackets are nested too deeply\)"),
}


@pytest.fixture(params=NO_JSON)
def case(request):
    return request.param


@pytest.fixture
def with_bad_json(tmp_path, case):
    """A foreign tar of latents; the JSON of its third sample is not valid."""
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
