"""Latents to arrays: every dtype, with and without an index of their bytes."""

import io

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import SampleError
from tests.support.tars import tar_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_latents_keep_their_dtype_and_values(tmp_path, dtype):
    tensors = {key: torch.randn(length, 4).to(dtype) for key, length in (("a", 5), ("b", 9))}
    members = []
    for key, hidden in tensors.items():
        file = io.BytesIO()
        torch.save({"encoder_hidden": hidden, "encoder_length": len(hidden) - 1}, file)
        members.append((f"{key}.pth", file.getvalue()))
    (tmp_path / "x.tar").write_bytes(tar_of(dict(members)))
    batch = next(iter(StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=2))))
    assert batch["encoder_hidden"].dtype == dtype
    assert batch["encoder_length"].tolist() == [4, 8]
    for row, hidden in enumerate(tensors.values()):
        assert torch.equal(batch["encoder_hidden"][row, : len(hidden) - 1], hidden[:-1])
        assert not batch["encoder_hidden"][row, len(hidden) - 1 :].any()
    plain = next(iter(StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=2, output="numpy"))))
    assert plain["encoder_hidden"].dtype == (np.float32 if dtype is torch.bfloat16 else np.dtype(str(dtype)[6:]))


def test_latents_that_are_not_stored_plainly_are_loaded_by_torch(tmp_path):
    """A transposed tensor has other bytes in its file than in its rows."""
    hidden = torch.arange(12.0).reshape(3, 4).T
    file = io.BytesIO()
    torch.save({"encoder_hidden": hidden, "encoder_length": 4}, file)
    (tmp_path / "x.tar").write_bytes(tar_of({"a.pth": file.getvalue()}))
    sample = next(iter(StreamingDataset(remote=str(tmp_path))))
    assert torch.equal(sample["encoder_hidden"], hidden)


def test_a_pickle_that_would_run_code_is_rejected(tmp_path):
    import pickle

    (tmp_path / "x.tar").write_bytes(tar_of({"a.pth": pickle.dumps(print)}))
    with pytest.raises(SampleError, match="'a'"):
        next(iter(StreamingDataset(remote=str(tmp_path))))
