"""Page-locked batches, on machines without a GPU: torch's allocator is played by one that notes what it gave."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import SampleError
from headrace.streaming import loader as loading
from headrace.streaming.batches import pinning
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.batch import Batch, Latents
from headrace.streaming.batches.pinning import pinned, pinned_ahead
from headrace.streaming.settings import ArrayType
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set of audio, and its latents."""
    folder = tmp_path_factory.mktemp("pinning")
    write_dataset(folder, {"train": clips(14)}, latents=True)
    return folder


@pytest.fixture
def page_locked(monkeypatch):
    """Addresses of what was given as page-locked memory; all of it stays alive, so none comes twice."""
    given, kept = set(), []

    def give(shape, dtype):
        kept.append(torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype))
        given.add(kept[-1].data_ptr())
        return kept[-1]

    def pin(tensor):
        if tensor.data_ptr() in given:
            return tensor
        copy = give(tensor.shape, tensor.numpy().dtype)
        return copy.copy_(tensor)

    monkeypatch.setattr(pinning, "page_locked", give)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(loading, "_can_pin", lambda: True)
    return given


def dataset(folder, kind="audio", **settings):
    return StreamingDataset(remote=str(folder / kind), batch_size=4, shuffle=True, **settings)


def tensors(batch):
    return {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["audio", "latents/crepe"])
def test_every_tensor_is_page_locked_and_holds_what_was_read(folder, page_locked, kind, num_workers):
    expected = list(StreamingDataLoader(dataset(folder, kind)))
    found = list(StreamingDataLoader(dataset(folder, kind), num_workers=num_workers, pin_memory=True))
    for one, other in zip(found, expected, strict=True):
        assert one["keys"] == other["keys"]
        assert tensors(one).keys() == tensors(other).keys()
        for name, tensor in tensors(one).items():
            assert torch.equal(tensor, other[name])
            assert tensor.data_ptr() in page_locked


def test_batches_are_decoded_into_such_memory_and_not_copied(folder, page_locked, monkeypatch):
    def copies(tensor):
        assert tensor.nbytes < 1000 or tensor.data_ptr() in page_locked
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", copies)
    for batch in StreamingDataLoader(dataset(folder), pin_memory=True):
        assert batch["audio"].data_ptr() in page_locked


def test_what_a_collate_fn_gives_is_page_locked(folder, page_locked):
    def collate(samples):
        return {"lengths": [torch.tensor(sample["audio"].shape) for sample in samples], "first": samples[0]["audio"]}

    for batch in StreamingDataLoader(dataset(folder), pin_memory=True, collate_fn=collate):
        assert all(tensor.data_ptr() in page_locked for tensor in [batch["first"], *batch["lengths"]])


def test_numpy_batches_stay_what_they_are(folder, page_locked):
    batch = next(iter(StreamingDataLoader(dataset(folder, output="numpy"), pin_memory=True)))
    assert isinstance(batch["audio"], np.ndarray)
    assert not page_locked


def test_bfloat16_shows_the_page_locked_tensor(page_locked):
    hidden = pinning.PinnedMemory().empty((2, 3, 4), np.uint16)
    hidden[:] = 0x3F80  # 1.0
    batch = Batch(["a", "b"], [{}, {}], np.zeros(2, bool))
    batch.latents["encoder_hidden"] = Latents(hidden, np.full(2, 3), "bfloat16")
    shown = batch.to_dict(ArrayType.TORCH)["encoder_hidden"]
    assert shown.dtype is torch.bfloat16
    assert shown.data_ptr() in page_locked
    assert (shown == 1).all()


def test_nested_values_are_pinned_and_others_are_left():
    class Packed:
        def pin_memory(self):
            return "pinned"

    assert pinned({"a": [Packed(), 1], "b": (Packed(), "x"), "c": {"d": None}}) == {
        "a": ["pinned", 1], "b": ("pinned", "x"), "c": {"d": None},
    }  # fmt: skip


def test_the_next_batch_is_brought_meanwhile_and_an_error_comes_in_its_place():
    is_asked = [threading.Event() for _ in range(3)]

    def batches():
        for number, event in enumerate(is_asked):
            event.set()
            yield Batch([str(number)], [{}], np.zeros(1, bool))
        raise SampleError("no such sample")

    ahead = pinned_ahead(batches(), Arena())
    for number in range(3):
        assert next(ahead).keys == [str(number)]
        assert is_asked[min(number + 1, 2)].wait(60)  # though the consumer has not asked for it
    with pytest.raises(SampleError, match="no such sample"):
        next(ahead)


@pytest.mark.medium
def test_an_abandoned_iteration_ends_with_its_workers(folder, page_locked):
    before = set(multiprocessing.active_children())
    batches = iter(StreamingDataLoader(dataset(folder), num_workers=2, pin_memory=True))
    next(batches)
    assert len(set(multiprocessing.active_children()) - before) == 2
    batches.close()
    assert before.issuperset(multiprocessing.active_children())
