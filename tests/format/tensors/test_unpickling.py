"""Tests of `headrace.format.tensors.unpickling`."""

import io
import struct

import pytest
import torch

from headrace.errors import FormatError
from headrace.format.tensors.pth import latent_facts
from headrace.format.tensors.unpickling import unpickled
from tests.support.drills.hostile import saved

LARGE = torch.zeros(1, 1).expand(1 << 45, 8)


REFUSED = {
    "of strides": ({"encoder_hidden": LARGE, "encoder_length": 3}, r"made of a file of \d+ by strides \(0, 0\)"),
    "nested": ([{"x": (1, LARGE)}], r"call \.contiguous\(\)"),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=REFUSED)
def test_a_tensor_larger_than_its_file_is_an_error(content, words):
    with pytest.raises(FormatError, match=rf"\.pth rejected: .*{words}"):
        unpickled(saved(content))
    assert latent_facts(saved(content)) is None


def saved_by_old_torch(content):
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


HIDDEN = torch.arange(6.0).reshape(2, 3)
OF_OLD_TORCH = {
    "latents": {"encoder_hidden": HIDDEN, "encoder_length": 2},
    "two tensors of one storage": [HIDDEN, HIDDEN[1:]],
    "equal tensors": [torch.zeros(3), torch.zeros(3)],
    "of every size": [torch.zeros(count, dtype=torch.uint8) for count in (0, 1, 255, 256, 70_000)],
    "of complex numbers": torch.zeros(4, dtype=torch.complex128),
    "a parameter": torch.nn.Parameter(torch.ones(2)),
    "no tensor": {"a": [1, "b", None, 10**30]},
}


@pytest.mark.parametrize("case", OF_OLD_TORCH)
def test_files_of_old_torch_are_read(case):
    found = unpickled(saved_by_old_torch(OF_OLD_TORCH[case]))
    torch.testing.assert_close(found, OF_OLD_TORCH[case]) if case != "no tensor" else None
    assert type(found) is type(OF_OLD_TORCH[case])


def with_count(opcode):
    """A file of old torch whose storage of 6 numbers claims another count, in the form of an opcode."""
    return saved_by_old_torch(HIDDEN).replace(b"K\x06N", opcode + b"N", 1)


FORGED = {
    "a million": with_count(b"J" + struct.pack("<i", 1_000_000)),
    "two billion": with_count(b"J" + struct.pack("<i", (1 << 31) - 1)),
    "more than memory": with_count(b"\x8a\x08" + struct.pack("<q", 1 << 60)),
    "from the memo": with_count(b"J\xff\xff\xff\x7fq\x63" + b"0h\x63"),
    "a memo behind PROTO": with_count(b"J\xff\xff\xff\x7f\x80\x02q\x63" + b"0h\x63"),
    "twice the last": with_count(b"J\xff\xff\xff\x7f20"),
    "text": with_count(b"V1000000\n"),
}


@pytest.mark.parametrize("case", FORGED)
def test_counts_of_old_torch_are_compared_with_the_file_before_memory_is_taken(case, monkeypatch):
    assert FORGED[case] != saved_by_old_torch(HIDDEN)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("loaded before its sizes were compared"))
    with pytest.raises(FormatError, match=r"\.pth (rejected|damaged).*fetch or build it again"):
        unpickled(FORGED[case])


def test_many_storages_together_are_compared_with_the_file():
    content = [torch.zeros(200, dtype=torch.uint8) for _ in range(20)]
    blob = saved_by_old_torch(content).replace(b"K\xc8N", b"M\xff\x0fN")  # each fits, all together do not
    with pytest.raises(FormatError, match=r"its tensors have 81900 values, and \d+ bytes follow"):
        unpickled(blob)


def test_small_expanded_tensors_are_accepted():
    assert unpickled(saved(torch.zeros(1, 1).expand(100, 8))).shape == (100, 8)
