"""The fields that a transform adds: stacked where their shapes agree, lists else, zeros in padding rows."""

import io
import warnings

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, World, collate
from tests.support.streaming.corpus import clips
from tests.support.tars import tar_of

KINDS = {
    "tensor": (lambda n: torch.full((2, 3), n), torch.int64, (2, 3)),
    "bfloat16": (lambda n: torch.full((3,), n, dtype=torch.bfloat16), torch.bfloat16, (3,)),
    "array": (lambda n: np.full((3,), n, np.float32), torch.float32, (3,)),
    "numpy's number": (np.int16, torch.int16, ()),
    "int": (lambda n: n, torch.int64, ()),
    "float": (lambda n: n / 2, torch.float64, ()),
    "bool": (lambda n: n % 2 == 0, torch.bool, ()),
}
LISTS = {"text": (str, ""), "bytes": (lambda n: bytes([n]), b""), "a list": (lambda n: [n], None)}


class Adding:
    """A transform that adds a field; a class, so that it travels to workers."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, sample):
        make = (KINDS | LISTS)[self.kind][0]
        return sample | {"mine": make(int(sample["__key__"].removeprefix("clip")))}


def add_all(sample):
    return sample | {kind: make(_number(sample["__key__"])) for kind, (make, _, _) in KINDS.items()}


def _number(key):
    return int(key.removeprefix("clip"))


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_values_of_one_shape_are_stacked_with_zeros_in_padding_rows(dataset_folder, num_workers):
    """The last batch of the last rank, which is mostly padding, has the same form as all others."""
    num_padding = 0
    for rank in range(3):
        dataset = StreamingDataset(
            remote=f"{dataset_folder}/audio", batch_size=7, transform=add_all, world=World(rank, 3)
        )
        for batch in StreamingDataLoader(dataset, num_workers=num_workers):
            num_padding += batch["keys"].count("")
            for kind in KINDS:
                check_stacked(batch, kind)
    assert num_padding


def check_stacked(batch, kind):
    make, dtype, shape = KINDS[kind]
    assert (batch[kind].dtype, tuple(batch[kind].shape)) == (dtype, (7, *shape)), kind
    for key, value in zip(batch["keys"], batch[kind], strict=True):
        expected = torch.as_tensor(make(_number(key))) if key else torch.zeros(shape, dtype=dtype)
        assert torch.equal(value, expected.to(dtype)), kind


@pytest.mark.parametrize("kind", LISTS)
def test_text_and_other_values_stay_lists(dataset_folder, kind):
    make, padding = LISTS[kind]
    dataset = StreamingDataset(
        remote=f"{dataset_folder}/audio", batch_size=7, transform=Adding(kind), world=World(0, 2)
    )
    for batch in StreamingDataLoader(dataset):
        assert batch["mine"] == [make(_number(key)) if key else padding for key in batch["keys"]]


def test_ragged_arrays_stay_a_list_and_a_warning_names_the_field(dataset_folder):
    def ragged(sample):
        return sample | {"tokens": np.arange(len(sample["__key__"]) + _number(sample["__key__"]) % 2)}

    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", batch_size=4, transform=ragged)
    with pytest.warns(UserWarning, match="field 'tokens' differs in shape"):
        batch = next(iter(StreamingDataLoader(dataset)))
    assert [len(row) for row in batch["tokens"]] == [9, 10, 9, 10]


def test_a_collate_fn_gets_the_values_as_the_transform_made_them(dataset_folder):
    """Python's numbers, and arrays that are arrays still."""

    def add(sample):
        return sample | {"label": 3, "share": 0.5, "is_loud": True, "array": np.ones(2), "tensor": torch.ones(2)}

    seen = []
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", batch_size=4, transform=add)
    next(iter(StreamingDataLoader(dataset, collate_fn=seen.extend)))
    for sample in seen[:4]:
        assert (sample["label"], sample["share"], sample["is_loud"]) == (3, 0.5, True)
        assert [type(sample[name]) for name in ("label", "share", "is_loud")] == [int, float, bool]
        assert isinstance(sample["array"], np.ndarray)
        assert isinstance(sample["tensor"], torch.Tensor)


def test_numpy_output_gives_arrays(dataset_folder):
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", batch_size=4, transform=Adding("int"), output="numpy")
    batch = next(iter(StreamingDataLoader(dataset)))
    assert batch["mine"].dtype == np.int64


def test_numbers_beyond_64_bits_and_odd_dtypes_stay_lists():
    samples = [{"__key__": "a", "huge": 1 << 70, "odd": np.array(["x"]), "mixed": 1, "none": None}]
    samples += [{"__key__": "b", "huge": 2, "odd": np.array(["y"]), "mixed": "two", "none": None}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = collate(samples)
    assert batch["huge"] == [1 << 70, 2]
    assert batch["mixed"] == [1, "two"]
    assert batch["none"] == [None, None]
    assert isinstance(batch["odd"], list)


@pytest.mark.parametrize("crop", [{}, {"crop_seconds": 0.01}])
def test_a_pth_beside_audio_that_holds_no_latents_arrives_as_its_bytes(tmp_path, crop):
    """A job that does not want it reads on, also with a crop."""
    file = io.BytesIO()
    torch.save({"optimizer": [1, 2]}, file)
    members = {}
    for clip in clips(3):
        members |= {f"{clip.key}.flac": clip.flac(), f"{clip.key}.pth": file.getvalue()}
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    dataset = StreamingDataset(remote=tmp_path, batch_size=2, world=World(0, 1), **crop)
    batches = list(StreamingDataLoader(dataset))
    assert [row for batch in batches for row in batch["pth"] if row] == [file.getvalue()] * 3
    assert "encoder_hidden" not in batches[0]
    assert dataset[0]["pth"] == file.getvalue()


@pytest.mark.medium
def test_persistent_workers_are_accepted_and_change_nothing(dataset_folder):
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", batch_size=8)
    loader = StreamingDataLoader(dataset, num_workers=1, persistent_workers=True)
    epochs = [[batch["keys"] for batch in loader] for _ in range(2)]
    assert epochs[0] == epochs[1]
