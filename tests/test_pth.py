"""What a `.pth` must hold, and what is said of others: never torch's advice to run their code."""

import io
import os
import tarfile

import numpy as np
import pytest
import torch

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import FormatError, SampleError
from headrace.pth import stored_latents

HIDDEN = torch.arange(12, dtype=torch.float16).reshape(3, 4)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("/nonexistent/never",))


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def test_latents_come_as_they_were_stored():
    hidden, length = stored_latents(saved({"encoder_hidden": HIDDEN, "encoder_length": torch.tensor(2)}))
    assert torch.equal(hidden, HIDDEN)
    assert hidden.dtype == torch.float16
    assert length == 2


FORMS = {
    "a tensor alone": (HIDDEN, r"holds a tensor \(3, 4\), expected latents: write it with torch\.save"),
    "no length": ({"encoder_hidden": HIDDEN}, r"holds a dict of encoder_hidden: a tensor \(3, 4\), expected latents"),
    "three axes": ({"encoder_hidden": HIDDEN[None], "encoder_length": 3}, r"tensor \(1, 3, 4\), encoder_length: a int"),
    "a strange length": ({"encoder_hidden": HIDDEN, "encoder_length": "long"}, "encoder_length: a str"),
    "nothing": ({}, "a dict of nothing"),
    "numpy": ({"encoder_hidden": np.ones((3, 4)), "encoder_length": 3}, r"refused: it holds numpy\S+_reconstruct, "),
    "code": ({"encoder_hidden": Evil()}, r"refused: it holds posix\.mkdir, .*without running code"),
}


@pytest.mark.parametrize(("content", "words"), FORMS.values(), ids=FORMS)
def test_another_form_is_said_in_clear_words(tmp_path, content, words):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        blob = saved(content)
        info = tarfile.TarInfo("sample.pth")
        info.size = len(blob)
        archive.addfile(info, io.BytesIO(blob))
    with pytest.raises(SampleError, match=rf"a\.tar: sample 'sample': \.pth .*{words}") as caught:
        StreamingDataset(remote=tmp_path)[0]
    assert_no_advice(caught.value)


def assert_no_advice(error):
    while error is not None:
        assert "weights_only" not in str(error)
        assert "\x1b" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_webdataset_loader_refuses_code_in_the_same_words(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        blob = saved(Evil())
        info = tarfile.TarInfo("sample.pth")
        info.size = len(blob)
        archive.addfile(info, io.BytesIO(blob))
    with pytest.raises(SampleError, match=r"a\.tar: sample 'sample': \.pth refused: it holds posix\.mkdir") as caught:
        list(webdataset_loader(tmp_path, batch_size=None))
    assert_no_advice(caught.value)


@pytest.mark.parametrize("blob", [b"", b"hello", saved(HIDDEN)[:-50]], ids=["empty", "words", "cut off"])
def test_damaged_bytes_are_said_to_be_damaged(blob):
    with pytest.raises(FormatError, match=r"\.pth damaged, or none of torch\.save \(.+\)"):
        stored_latents(blob)
