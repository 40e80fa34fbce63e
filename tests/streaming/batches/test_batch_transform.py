"""Functions of whole batches: called off the consumer's thread, in order, with seeds; errors name the keys."""

import threading

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, SampleError
from headrace.streaming.batches.batch_transform import with_tensors, without_tensors
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset

SAMPLES = {"train": clips(22)}
TOKENS = 512


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("batches")
    audio = write_dataset(made, SAMPLES, latents=True)
    captions = {spec("caption", "string"): lambda clip: None if clip.number == 3 else f"clip {clip.number} " * 9}
    write_columns(made, "captions", captions, SAMPLES, audio)
    return made


def opened(folder, **more):
    return StreamingDataset(**{"remote": folder, "columns": ["captions"], "batch_size": 4, "shuffle": True, **more})


def tokenized(batch):
    """A tokenizer: the bytes of each caption, padded to (B, 512)."""
    texts = [(one.get("caption") or "").encode()[:TOKENS] for one in batch["metadata"]]
    tokens = torch.zeros(len(texts), TOKENS, dtype=torch.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = torch.tensor(list(text), dtype=torch.int64)
    return batch | {"tokens": tokens, "attention": tokens > 0}


def noisy(batch, rng):
    return {"keys": batch["keys"], "audio": batch["audio"] + 0, "noise": torch.from_numpy(rng.standard_normal(3))}


def here(batch):
    return {"thread": threading.current_thread().name, "keys": batch["keys"]}


def failing(batch):
    if "clip00005" in batch["keys"]:
        raise ValueError("no such token")
    return batch


def nothing(_):
    return None


def heard(batch):
    return {"audio": batch["audio"], "again": batch["audio"], "half": batch["audio"].bfloat16(), "pair": (1, [batch])}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_captions_are_tokenized_in_the_loader(folder, num_workers):
    plain = list(StreamingDataLoader(opened(folder)))
    loader = StreamingDataLoader(opened(folder, batch_transform=tokenized), num_workers=num_workers)
    assert len(loader) == len(plain)
    for batch, other in zip(loader, plain, strict=True):
        assert batch["tokens"].shape == (4, TOKENS)
        for row, one in zip(batch["tokens"], other["metadata"], strict=True):
            text = (one.get("caption") or "").encode()
            assert bytes(row.tolist()).rstrip(b"\0") == text
        assert torch.equal(batch["audio"], other["audio"])
        assert batch["keys"] == other["keys"]
    assert loader.stats.num_samples == 22


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_random_numbers_depend_on_epoch_and_batch_alone(folder, num_workers):
    whole = StreamingDataLoader(opened(folder, batch_transform=noisy))
    epochs = [[batch["noise"] for batch in whole] for _ in range(2)]
    assert len({tuple(noise.tolist()) for epoch in epochs for noise in epoch}) == 12
    loader = StreamingDataLoader(opened(folder, batch_transform=noisy), num_workers=num_workers)
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    state = loader.state_dict()
    batches.close()
    resumed = StreamingDataLoader(opened(folder, batch_transform=noisy), num_workers=num_workers, num_threads=3)
    resumed.load_state_dict(state)
    for batch, noise in zip(resumed, epochs[0][2:], strict=True):
        assert torch.equal(batch["noise"], noise)
    ranks = [opened(folder, batch_transform=noisy, batch_size=2, world=World(rank, 2)) for rank in range(2)]
    first, second = (next(iter(StreamingDataLoader(rank)))["noise"] for rank in ranks)
    assert not torch.equal(first, second)


def test_the_function_is_not_called_on_the_consumers_thread(folder):
    for batch in StreamingDataLoader(opened(folder, batch_transform=here)):
        assert batch["thread"].startswith("headrace-decode")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_errors_name_the_keys_of_the_batch(folder, num_workers):
    loader = StreamingDataLoader(opened(folder, shuffle=False, batch_transform=failing), num_workers=num_workers)
    batches = iter(loader)
    assert next(batches)["keys"][0] == "clip00000"
    with pytest.raises(SampleError, match=r"batch of 'clip00004', 'clip00005', .*: ValueError: no such token"):
        next(batches)
    with pytest.raises(SampleError, match="TypeError: it gave None"):
        next(iter(StreamingDataLoader(opened(folder, batch_transform=nothing))))


def test_results_of_worker_processes_keep_their_tensors(folder):
    one, two = (
        list(StreamingDataLoader(opened(folder, batch_transform=heard, batch_size=11), num_workers=n)) for n in (0, 1)
    )
    for batch, other in zip(one, two, strict=True):
        for name in ("audio", "again", "half"):
            assert torch.equal(batch[name], other[name])
            assert batch[name].dtype == other[name].dtype
        assert batch["pair"][1][0]["keys"] == other["pair"][1][0]["keys"]


def test_tensors_in_containers_become_arrays_and_back():
    value = {"a": [torch.arange(3), (torch.ones(2, dtype=torch.bfloat16), "text")], "b": np.ones(1)}
    back = with_tensors(without_tensors(value))
    assert torch.equal(back["a"][0], value["a"][0])
    assert torch.equal(back["a"][1][0], value["a"][1][0])
    assert back["a"][1][1] == "text"
    assert back["b"] is value["b"]
    assert not isinstance(without_tensors(value)["a"][0], torch.Tensor)


def test_places_without_batches_are_an_error(folder):
    dataset = opened(folder, batch_transform=tokenized)
    with pytest.raises(ConfigError, match="batch_transform works on batches"):
        next(iter(dataset))
    with pytest.raises(ConfigError, match="collate_fn and batch_transform are both given"):
        StreamingDataLoader(dataset, collate_fn=list)
    with pytest.raises(ConfigError, match="batch_transform is 3: expected a function"):
        opened(folder, batch_transform=3)
    with pytest.raises(ConfigError, match="cannot travel to worker processes"):
        next(iter(StreamingDataLoader(opened(folder, batch_transform=lambda b: b), num_workers=1,
                                      multiprocessing_context="spawn")))  # fmt: skip
