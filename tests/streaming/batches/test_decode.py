"""Samples to arrays: every audio format, damaged data, latents with and without an index of their bytes."""

import gc
import io
import itertools
import tarfile

import numpy as np
import pytest
import soundfile as sf
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import StreamingDataLoader, StreamingDataset
from headrace.audio import decode_flac_into
from headrace.errors import AudioError, SampleError
from headrace.streaming.batches.decode import parsed, parsed_together
from tests.support.streaming.corpus import clips


def write_tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, blob in members:
            info = tarfile.TarInfo(name)
            info.size = len(blob)
            archive.addfile(info, io.BytesIO(blob))


def encoded(clip, kind, subtype):
    file = io.BytesIO()
    sf.write(file, clip.pcm(), 8000, format=kind, subtype=subtype)
    return file.getvalue()


def test_every_audio_field_is_read_whatever_its_format(tmp_path):
    clip = clips(1)[0]
    forms = {"a.wav": ("WAV", "PCM_16"), "b.flac": ("FLAC", "PCM_24"), "c.aiff": ("AIFF", "PCM_16")}
    write_tar(tmp_path / "x.tar", [(name, encoded(clip, *form)) for name, form in forms.items()])
    for sample in StreamingDataset(remote=str(tmp_path)):
        assert np.array_equal(sample["audio"].numpy(), clip.audio())
        assert sample["metadata"] == {}
    batch = next(iter(StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=3))))
    assert batch["keys"] == ["a", "b", "c"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_latents_keep_their_dtype_and_values(tmp_path, dtype):
    tensors = {key: torch.randn(length, 4).to(dtype) for key, length in (("a", 5), ("b", 9))}
    members = []
    for key, hidden in tensors.items():
        file = io.BytesIO()
        torch.save({"encoder_hidden": hidden, "encoder_length": len(hidden) - 1}, file)
        members.append((f"{key}.pth", file.getvalue()))
    write_tar(tmp_path / "x.tar", members)
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
    write_tar(tmp_path / "x.tar", [("a.pth", file.getvalue())])
    sample = next(iter(StreamingDataset(remote=str(tmp_path))))
    assert torch.equal(sample["encoder_hidden"], hidden)


def test_a_pickle_that_would_run_code_is_rejected(tmp_path):
    import pickle

    write_tar(tmp_path / "x.tar", [("a.pth", pickle.dumps(print))])
    with pytest.raises(SampleError, match="'a'"):
        next(iter(StreamingDataset(remote=str(tmp_path))))


def test_a_sample_that_is_no_audio_is_named(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.flac", b"not audio at all"), ("b.wav", b"RIFFxxxx")])
    with pytest.raises(SampleError, match=r"x.tar: sample 'a'"):
        next(iter(StreamingDataset(remote=str(tmp_path))))


def test_an_error_of_the_decoder_survives_garbage_collection():
    """A traceback that kept the decoder's view of the bytes crashed the interpreter when it was collected."""
    clip = clips(1)[0]
    blob = bytearray(clip.flac())
    blob[len(blob) // 2] ^= 0xFF
    for _ in range(20):
        try:
            decode_flac_into(memoryview(bytes(blob))[0:], np.empty((1, clip.num_frames), np.float32))
        except AudioError as error:
            error.itself = error  # a cycle: only the collector frees it
        gc.collect(1)  # what is young
    gc.collect()


TEXTS = ['{"title": "a"}', ' {"title": "a"}\n', "{}", "[1, 2]", "12", "3", "", "\ufeff{}", '{"title": "é"}', "null"]


@given(st.lists(st.sampled_from(TEXTS)))
def test_texts_parsed_together_are_as_parsed_alone(texts):
    blobs = [text.encode() for text in texts]
    ends = list(itertools.accumulate(map(len, blobs)))
    assert parsed_together(b"".join(blobs), ends) == [parsed(blob) if blob else {} for blob in blobs]


@pytest.mark.parametrize("texts", [['{"a": [1', "2]}"], ["{}{}", "{}"], ['{"a": 1}', "{"]])
def test_texts_that_are_none_alone_are_none_together(texts):
    blobs = [text.encode() for text in texts]
    with pytest.raises(ValueError, match="column"):
        parsed_together(b"".join(blobs), list(itertools.accumulate(map(len, blobs))))
