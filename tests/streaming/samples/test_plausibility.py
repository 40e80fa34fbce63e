"""Headers and indexes with wrong lengths: such a sample is bad, and takes no more memory than a valid one."""

import dataclasses
import io
import struct

import numpy as np
import pytest
import soundfile as sf
import torch

from headrace import StreamingDataset
from headrace.errors import FormatError, SampleError
from headrace.format.indexes.index_files import parse_index
from headrace.streaming.batches import assembler as assembler_module
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.copied_batch import CopiedBatch
from tests.support.plausibility import only_batch
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.tars import write_tar

GOOD, BAD = clips(2, frames=(2000, 4000))


def lying_flac(byte, mask):
    """FLAC of which one bit of the header says another number of frames; byte 21 and 22 hold its upper bits."""
    blob = bytearray(BAD.flac())
    blob[byte] ^= mask
    return bytes(blob)


LIES = {
    "2^35 frames": (21, 8),
    "2^32 frames": (21, 1),
    "2^27 frames": (22, 8),
    "2^17 frames": (23, 2),
    "2^12 frames": (24, 16),
}


@pytest.fixture(params=LIES)
def with_a_lie(tmp_path, request):
    write_tar(tmp_path / "x.tar", [("a.flac", GOOD.flac()), ("b.flac", lying_flac(*LIES[request.param]))])
    return tmp_path


def test_flac_that_promises_more_than_it_holds_is_named(with_a_lie):
    with pytest.raises(SampleError, match=r"x\.tar: sample 'b': .*fetch"):
        only_batch(with_a_lie)


@pytest.mark.parametrize("how", [{}, {"sample_rate": 8000}, {"transform": lambda sample: sample}])
def test_flac_that_promises_more_than_it_holds_costs_no_other_sample(with_a_lie, how):
    batch = only_batch(with_a_lie, on_bad_sample="skip", **how)
    assert batch["keys"] == ["a", ""]
    assert batch["audio"].shape == (2, 1, GOOD.num_frames)
    assert np.array_equal(batch["audio"][0].numpy(), GOOD.audio())
    assert not batch["audio"][1].any()


def test_silence_may_have_many_frames_in_few_bytes(tmp_path):
    """Nothing else has this many frames in so few bytes."""
    file = io.BytesIO()
    sf.write(file, np.zeros(1 << 18, np.int16), 8000, format="FLAC")
    assert len(file.getvalue()) * 8 < 1 << 18
    write_tar(tmp_path / "x.tar", [("a.flac", GOOD.flac()), ("b.flac", file.getvalue())])
    batch = only_batch(tmp_path)
    assert batch["num_frames"].tolist() == [GOOD.num_frames, 1 << 18]
    assert np.array_equal(batch["audio"][0, :, : GOOD.num_frames].numpy(), GOOD.audio())
    assert not batch["audio"][1].any()


def wav(rate_hz):
    file = io.BytesIO()
    sf.write(file, GOOD.pcm(), 8000, format="WAV", subtype="PCM_16")
    blob = bytearray(file.getvalue())
    struct.pack_into("<I", blob, 24, rate_hz)
    return bytes(blob)


@pytest.mark.parametrize("rate_hz", [1, 99, 100_000_000])
def test_a_rate_that_no_sound_has_is_not_resampled(tmp_path, rate_hz):
    write_tar(tmp_path / "x.tar", [("a.wav", wav(8000)), ("b.wav", wav(rate_hz))])
    with pytest.raises(SampleError, match=rf"x\.tar: sample 'b': its header says {rate_hz} Hz: expected 100 to"):
        only_batch(tmp_path, sample_rate=16_000)
    batch = only_batch(tmp_path, sample_rate=16_000, on_bad_sample="skip")
    assert batch["audio"].shape == (2, 1, 2 * GOOD.num_frames)
    assert only_batch(tmp_path)["sample_rate"].tolist() == [8000, rate_hz]


@pytest.mark.parametrize(("place", "value"), [(2, 1 << 40), (2, -3), (3, 1 << 40), (1, 1 << 40)])
def test_an_index_that_contradicts_itself_asks_for_no_memory(tmp_path, place, value):
    write_dataset(tmp_path, {"train": clips(2)}, latents=True)
    (path,) = (tmp_path / "latents/crepe").glob("*.idx")
    index = parse_index(path.read_bytes(), path.name)
    tensors = index.tensors.copy()
    tensors[1, 0, place] = value
    path.write_bytes(dataclasses.replace(index, tensors=tensors).to_bytes())
    with pytest.raises(
        FormatError, match=r"latent_.*idx: the index contradicts itself: the tensor encoder_hidden of .*'clip00001'"
    ):
        only_batch(tmp_path / "latents/crepe")


def pth(length, *, is_plain=True):
    file = io.BytesIO()
    hidden = torch.arange(1.0, 16.0).reshape(5, 3)
    hidden = hidden if is_plain else hidden.T.contiguous().T
    torch.save({"encoder_hidden": hidden, "encoder_length": length}, file)
    return file.getvalue()


@pytest.mark.parametrize("crop", [{}, {"crop_frames": 4}])
@pytest.mark.parametrize("how", ["copied", "in place", "transform", "loaded by torch"])
def test_latents_are_zero_behind_their_length_however_they_are_read(tmp_path, monkeypatch, how, crop):
    write_tar(
        tmp_path / "x.tar",
        [(f"{key}.pth", pth(n, is_plain=how != "loaded by torch")) for key, n in zip("ab", (5, 3), strict=True)],
    )
    more = crop | ({"transform": lambda sample: sample} if how == "transform" else {})
    if how == "in place":
        monkeypatch.setattr(assembler_module, "copy_plan", lambda *_: None)
    dataset = StreamingDataset(remote=str(tmp_path), batch_size=2, **more)
    assembler = dataset.epochs.assembler(Arena())
    opened = assembler.open(next(dataset.epochs.begin().plans()))
    assert isinstance(opened, CopiedBatch) == (how == "copied")
    batch = only_batch(tmp_path, **more)
    count, whole = (4 if crop else 5), torch.arange(1.0, 16.0).reshape(5, 3)
    assert batch["encoder_hidden"].shape == (2, count, 3)
    for row, length in enumerate((5, 3)):
        first = int(batch["encoder_offset"][row]) if crop else 0
        end = min(length - first, count)
        assert batch["encoder_length"][row] == end
        assert torch.equal(batch["encoder_hidden"][row, :end], whole[first : first + end])
        assert not batch["encoder_hidden"][row, end:].any()


@pytest.mark.parametrize("length", [9, -1])
@pytest.mark.parametrize("is_plain", [True, False])
def test_latents_of_a_length_that_they_do_not_have_are_bad_samples(tmp_path, length, is_plain):
    write_tar(tmp_path / "x.tar", [("a.pth", pth(5, is_plain=is_plain)), ("b.pth", pth(length, is_plain=is_plain))])
    found = rf"x\.tar: sample 'b': \.pth: encoder_length is {length}, encoder_hidden has 5 frames: expected 0 to 5"
    with pytest.raises(SampleError, match=found):
        only_batch(tmp_path)
    assert only_batch(tmp_path, on_bad_sample="skip")["keys"] == ["a", ""]
