"""Fields of a transform whose lengths differ: padded on request, with the lengths beside them."""

from functools import partial

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, collate
from headrace.errors import ConfigError, SampleError
from tests.support.streaming.corpus import clips, write_dataset

SAMPLES = {"train": clips(7)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("padded")
    write_dataset(made, SAMPLES, latents=True)
    return made


def number(sample):
    return int(sample["__key__"][4:])


def lists(sample):
    return sample | {"tokens": list(range(number(sample)))}


def tensors(sample):
    return sample | {"tokens": torch.full((number(sample), 2), 0.5, dtype=torch.bfloat16)}


def arrays(sample):
    return sample | {"tokens": np.full((number(sample),), 7, np.int16)}


def loader(folder, transform, num_workers=0, **more):
    more = {"pad": {"tokens": -1}, "batch_size": 4, **more}
    return StreamingDataLoader(StreamingDataset(remote=folder, transform=transform, **more), num_workers=num_workers)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_lists_are_padded_to_the_longest(folder, num_workers):
    first, last = loader(folder, lists, num_workers)
    assert first["tokens"].tolist() == [[-1, -1, -1], [0, -1, -1], [0, 1, -1], [0, 1, 2]]
    assert first["tokens"].dtype == first["tokens_length"].dtype == torch.int64
    assert first["tokens_length"].tolist() == [0, 1, 2, 3]
    assert last["tokens_length"].tolist() == [4, 5, 6, 0]
    assert last["tokens"][3].tolist() == [-1] * 6


def test_tensors_and_arrays_keep_their_dtype_and_their_other_axes(folder):
    batch = next(iter(loader(folder, tensors)))
    assert batch["tokens"].dtype == torch.bfloat16
    assert batch["tokens"].shape == (4, 3, 2)
    assert batch["tokens"][2, :, 0].tolist() == [0.5, 0.5, -1]
    batch = next(iter(loader(folder, arrays, output="numpy")))
    assert batch["tokens"].dtype == np.int16
    assert batch["tokens"][3].tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("int64", 0.5), ("int64", float("nan")), ("int8", 128), ("uint16", -1), ("bool", 2), ("int32", float("inf"))],
)
def test_a_fill_that_the_values_cannot_hold_is_an_error(dtype, fill):
    samples = [{"__key__": str(n), "tokens": np.zeros(n, dtype)} for n in (1, 2)]
    with pytest.raises(ConfigError, match=rf"pad\['tokens'\] is {fill}, and the values are {dtype}: pass a value"):
        collate(samples, pad={"tokens": fill})


@pytest.mark.parametrize(
    ("dtype", "fill"), [("int8", -128), ("bool", True), ("float32", float("nan")), ("uint8", 255.0), ("float16", 1)]
)
def test_a_fill_of_the_values_type_is_stored_exactly(dtype, fill):
    samples = [{"__key__": str(n), "tokens": np.zeros(n, dtype)} for n in (1, 2)]
    np.testing.assert_equal(float(collate(samples, pad={"tokens": fill})["tokens"][0, 1]), float(fill))


def test_rows_of_one_length_have_the_same_fields(folder):
    def pair(sample):
        return sample | {"tokens": np.arange(2)}

    batch = next(iter(loader(folder, pair)))
    assert batch["tokens"].shape == (4, 2)
    assert batch["tokens_length"].tolist() == [2, 2, 2, 2]


def test_a_collate_fn_gets_values_without_padding(folder):
    dataset = StreamingDataset(remote=folder, transform=lists, pad={"tokens": 0}, batch_size=4)
    samples = next(iter(StreamingDataLoader(dataset, collate_fn=list)))
    assert [one["tokens"].tolist() for one in samples] == [[], [0], [0, 1], [0, 1, 2]]
    assert "tokens_length" not in samples[0]


def test_torchs_loader_pads_with_the_collate_of_headrace(folder):
    dataset = StreamingDataset(remote=folder, transform=lists, batch_size=4)
    made = torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=partial(collate, pad={"tokens": -1}))
    ours = loader(folder, lists)
    for one, two in zip(made, ours, strict=True):
        assert torch.equal(one["tokens"], two["tokens"])
        assert torch.equal(one["tokens_length"], two["tokens_length"])


def test_what_cannot_be_padded_is_named(folder):
    def text(sample):
        return sample | {"tokens": "word"}

    with pytest.raises(SampleError, match=r"clip00000': pad: 'tokens' is str, expected an array"):
        next(iter(loader(folder, text)))

    def mixed(sample):
        return sample | {"tokens": np.zeros((2, number(sample)), np.int16)}

    with pytest.raises(ConfigError, match=r"pad: 'tokens' differs within a batch: \(L, 0\) int16 and \(L, 1\) int16"):
        next(iter(loader(folder, mixed)))

    def some(sample):
        return lists(sample) if number(sample) else sample

    with pytest.raises(ConfigError, match="clip00000' has no tokens"):
        next(iter(loader(folder, some)))
    with pytest.raises(ConfigError, match="pad: no sample of a batch has a field 'tokens'; they have __key__, audio"):
        next(iter(loader(folder, None)))
    with pytest.raises(ConfigError, match="no sample of a batch has a field 'tokens'"):
        next(iter(loader(folder / "latents/crepe", None)))

    def taken(sample):
        return lists(sample) | {"tokens_length": 1}

    with pytest.raises(ConfigError, match="'tokens_length', a field that samples have"):
        next(iter(loader(folder, taken)))
    for name in ("audio", "sample_rate", "metadata"):
        with pytest.raises(ConfigError, match=f"pad: '{name}' is no field of a transform"):
            next(iter(loader(folder, None, pad={name: -1})))

    def named(sample):
        return sample | {"mix": sample["audio"], "__audio__": ("mix",)}

    with pytest.raises(ConfigError, match="pad: 'mix' is no field of a transform"):
        next(iter(loader(folder, named, pad={"mix": -1})))


@pytest.mark.parametrize(
    ("pad", "message"),
    [(["tokens"], r"pad is \['tokens'\]: expected names of fields"), ({"tokens": "0"}, r"pad\['tokens'\] is '0'")],
)
def test_wrong_arguments_are_named(folder, pad, message):
    with pytest.raises(ConfigError, match=message):
        loader(folder, None, pad=pad)
