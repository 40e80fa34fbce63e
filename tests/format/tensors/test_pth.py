"""Contents of a `.pth`, and the errors about others, which never repeat torch's advice to run their code."""

import io
import os
import tarfile

import numpy as np
import pytest
import torch

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import FormatError, SampleError
from headrace.format.tensors.pth import stored_latents
from tests.support.tars import tar_of

HIDDEN = torch.arange(12, dtype=torch.float16).reshape(3, 4)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("/nonexistent/never",))


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def test_latents_survive_a_round_trip():
    hidden, length = stored_latents(saved({"encoder_hidden": HIDDEN, "encoder_length": torch.tensor(2)}))
    assert torch.equal(hidden, HIDDEN)
    assert hidden.dtype == torch.float16
    assert length == 2


FORMS = {
    "a tensor alone": (HIDDEN, r"holds a tensor \(3, 4\) of float16, expected latents: write it with torch\.save"),
    "no length": (
        {"encoder_hidden": HIDDEN},
        r"holds a dict of encoder_hidden: a tensor \(3, 4\) of float16, expected ",
    ),
    "three axes": (
        {"encoder_hidden": HIDDEN[None], "encoder_length": 3},
        r"tensor \(1, 3, 4\) of float16",
    ),
    "a strange length": ({"encoder_hidden": HIDDEN, "encoder_length": "long"}, "encoder_length: a value of type str"),
    "one axis": ({"encoder_hidden": HIDDEN[0], "encoder_length": 3}, r"encoder_hidden: a tensor \(4,\) of float16, "),
    "a number": ({"encoder_hidden": HIDDEN[0, 0], "encoder_length": 1}, r"encoder_hidden: a tensor \(\) of float16, "),
    "half a frame": ({"encoder_hidden": HIDDEN, "encoder_length": 2.5}, "encoder_length: 2.5, expected latents"),
    "endless": ({"encoder_hidden": HIDDEN, "encoder_length": float("inf")}, "encoder_length: inf, expected latents"),
    "a truth": ({"encoder_hidden": HIDDEN, "encoder_length": True}, "encoder_length: True, expected latents"),
    "no number": ({"encoder_hidden": HIDDEN, "encoder_length": None}, "encoder_length: None, expected latents"),
    "nothing": ({}, "a dict of nothing"),
    "numpy": ({"encoder_hidden": np.ones((3, 4)), "encoder_length": 3}, r"rejected: it holds numpy\S+_reconstruct, "),
    "code": ({"encoder_hidden": Evil()}, r"rejected: it holds posix\.mkdir, .*without running code"),
}


@pytest.mark.parametrize(("content", "words"), FORMS.values(), ids=FORMS)
def test_the_error_about_another_form_says_what_was_found(tmp_path, content, words):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        blob = saved(content)
        info = tarfile.TarInfo("sample.pth")
        info.size = len(blob)
        archive.addfile(info, io.BytesIO(blob))
    with pytest.raises(SampleError, match=rf"a\.tar: sample 'sample': \.pth .*{words}") as caught:
        StreamingDataset(remote=tmp_path)[0]
    assert_no_advice(caught.value)


# Tensors that torch.save writes but that cannot be batched. torch's own errors about them name no sample.
ODD = {
    "complex": (lambda: HIDDEN.to(torch.complex64), r"tensor \(3, 4\) of complex64"),
    "conjugate": (lambda: HIDDEN.to(torch.complex64).conj(), r"tensor \(3, 4\) of complex64"),
    "eight bits": (lambda: HIDDEN.to(torch.float8_e4m3fn), r"tensor \(3, 4\) of float8_e4m3fn"),
    "sparse": (HIDDEN.to_sparse, r"sparse_coo tensor \(3, 4\) of float16"),
    "sparse rows": (lambda: HIDDEN.float().to_sparse_csr(), r"sparse_csr tensor \(3, 4\) of float32"),
    "quantized": (lambda: torch.quantize_per_tensor(HIDDEN.float(), 0.1, 0, torch.qint8), r"tensor \(3, 4\) of qint8"),
    "nested": (lambda: torch.nested.nested_tensor([HIDDEN, HIDDEN]), "nested tensor of float16"),
    "without values": (lambda: torch.empty(3, 4, device="meta"), r"meta tensor \(3, 4\) of float32"),
}


@pytest.mark.filterwarnings("ignore")  # torch's warning about a planned change
@pytest.mark.parametrize(("odd", "words"), ODD.values(), ids=ODD)
def test_the_error_about_a_tensor_that_cannot_be_batched_names_shard_and_sample(tmp_path, odd, words):
    blob = saved({"encoder_hidden": odd(), "encoder_length": 3})
    (tmp_path / "a.tar").write_bytes(tar_of({"sample.pth": blob}))
    for read in (lambda: StreamingDataset(remote=tmp_path)[0], lambda: list(webdataset_loader(tmp_path))):
        with pytest.raises(SampleError, match=rf"a\.tar: sample 'sample': \.pth holds .*{words}.*expected latents"):
            read()


STRIDED = {
    "transposed": lambda: HIDDEN.t().contiguous().t(),
    "every other": lambda: HIDDEN.repeat_interleave(2, 0)[::2],
    "repeated": lambda: HIDDEN[:1].expand(3, 4),
    "part of more": lambda: torch.cat([HIDDEN, HIDDEN])[:3],
    "negative": lambda: torch._neg_view(HIDDEN),
    "with a gradient": lambda: HIDDEN.clone().requires_grad_(),
    "whole numbers": lambda: HIDDEN.to(torch.int16),
    "two bytes": lambda: HIDDEN.to(torch.bfloat16),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_every_dense_tensor_keeps_its_values(tmp_path, make):
    stored = make()
    (tmp_path / "a.tar").write_bytes(tar_of({"sample.pth": saved({"encoder_hidden": stored, "encoder_length": 3})}))
    for sample in (StreamingDataset(remote=tmp_path)[0], next(iter(webdataset_loader(tmp_path, batch_size=None)))):
        assert sample["encoder_hidden"].dtype == stored.dtype
        assert torch.equal(sample["encoder_hidden"], stored.detach())
        assert not sample["encoder_hidden"].requires_grad


@pytest.mark.parametrize("length", [-1, 4, 2**70])
def test_the_error_about_a_length_out_of_range_names_shard_and_sample(tmp_path, length):
    blob = saved({"encoder_hidden": HIDDEN, "encoder_length": length})
    (tmp_path / "a.tar").write_bytes(tar_of({"sample.pth": blob}))
    words = rf"a\.tar: sample 'sample': \.pth: encoder_length is {length}, encoder_hidden has 3 frames: expected 0 to 3"
    for read in (lambda: StreamingDataset(remote=tmp_path)[0], lambda: list(webdataset_loader(tmp_path))):
        with pytest.raises(SampleError, match=words):
            read()


def assert_no_advice(error):
    while error is not None:
        assert "weights_only" not in str(error)
        assert "\x1b" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_webdataset_loader_gives_the_same_error_about_code(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        blob = saved(Evil())
        info = tarfile.TarInfo("sample.pth")
        info.size = len(blob)
        archive.addfile(info, io.BytesIO(blob))
    with pytest.raises(SampleError, match=r"a\.tar: sample 'sample': \.pth rejected: it holds posix\.mkdir") as caught:
        list(webdataset_loader(tmp_path, batch_size=None))
    assert_no_advice(caught.value)


@pytest.mark.parametrize("blob", [b"", b"hello", saved(HIDDEN)[:-50]], ids=["empty", "words", "cut off"])
def test_damaged_bytes_are_reported_as_damaged(blob):
    with pytest.raises(FormatError, match=r"\.pth damaged, or not written by torch\.save \(.+\)"):
        stored_latents(blob)
