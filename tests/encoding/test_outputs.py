"""Encoders of several outputs, from `encode` to batches: codes, vectors and frames in one shard."""

import io
import json

import numpy as np
import pytest
import torch

from headrace import StreamingDataset, encoders, webdataset_loader
from headrace.assemble.commit import commit_latents
from headrace.errors import BuildError, SampleError
from headrace.format.indexes.index_files import read_index
from headrace.format.indexes.indexing import index_tar
from headrace.format.manifests.manifests import newest_manifest
from headrace.testing import EncoderContract
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import PARTITION
from tests.support.output_builds import NAME, Built, assert_outputs, batches, clips, expected, rows, write_audio
from tests.support.outputs_encoder import Quantizer


class TestQuantizer(EncoderContract):
    """An encoder of several outputs keeps the contract of encoders, too."""

    is_local = True

    @pytest.fixture
    def encoder(self):
        return encoders.load("custom", {"encoder": NAME})


@pytest.fixture
def root(tmp_path):
    write_audio(tmp_path)
    return tmp_path


def test_all_outputs_are_in_one_file_that_torch_loads(root):
    built = Built(root).commit()
    shard = newest_manifest(built.storage, PARTITION).manifest.shards[0].name
    index = read_index(built.storage, shard)
    assert [output.name for output in index.outputs] == ["codes", "levels", "embedding"]  # those with time first
    (blob,) = built.storage.read_ranges(shard, [index.range_of(0, "pth")])
    stored = torch.load(io.BytesIO(blob), weights_only=True)
    assert stored.keys() == {"codes", "codes_length", "levels", "levels_length", "embedding"}
    assert (stored["codes"].dtype, stored["codes"].shape, stored["codes_length"]) == (torch.int16, (29, 2), 29)
    assert (stored["embedding"].shape, stored["levels_length"]) == ((3,), 15)
    (text,) = built.storage.read_ranges(shard, [index.range_of(0, "json")])
    listed = {output["name"]: output for output in json.loads(text)["headrace"]["outputs"]}
    assert listed["codes"] == {
        "name": "codes", "kind": "codes", "dtype": "int16", "hop": 320, "sample_rate_hz": 16_000,
    }  # fmt: skip
    with built.storage.open(shard) as file:
        made = index_tar(file, shard, sha256=index.sha256)
    assert (made.outputs, made.tensors.tolist()) == (index.outputs, index.tensors.tolist())
    assert made.tensor_crc32.tolist() == index.tensor_crc32.tolist()
    assert verify(find_target(str(root / "latents/mel")), Depth()).faults == []


@pytest.mark.medium
@pytest.mark.parametrize("transform", [None, lambda sample: sample], ids=["in place", "sample by sample"])
def test_each_output_is_a_field_of_its_own(root, transform):
    Built(root).commit()
    found = list(batches(root / "latents/mel", batch_size=3, transform=transform))
    assert_outputs(rows(found))
    for batch in found:
        for row, count in enumerate(batch["codes_length"].tolist()):
            assert (batch["codes"][row, count:] == -1).all()  # -1 is no code
            assert (batch["levels"][row, batch["levels_length"][row] :] == 0).all()
        assert batch["codes"].dtype == torch.int16
        assert batch["embedding"].shape == (3, 3)
        assert "embedding_length" not in batch


def test_samples_and_the_plain_loader_have_the_same_outputs(root):
    Built(root).commit()
    place = str(root / "latents/mel")
    for samples in (
        StreamingDataset(remote=place, batch_size=1),
        webdataset_loader(place, num_workers=0, batch_size=None),
    ):
        assert_outputs({s["__key__"]: (s["codes"], s["embedding"], s["levels"]) for s in samples})
    found = list(webdataset_loader(place, num_workers=0, batch_size=3))
    assert_outputs(rows(found))
    assert any((batch["codes"] == -1).any() for batch in found)


@pytest.mark.medium
def test_outputs_are_joined_to_audio_and_cut_with_it(root):
    Built(root).commit()
    options = {"remote": root, "latents": ["mel"], "batch_size": 4}
    assert_outputs(rows(batches(**options)))
    (batch,) = batches(**options, crop_seconds=0.2)
    whole = {key: expected(samples) for key, samples in clips().items()}
    for row, key in enumerate(batch["keys"]):
        first, count = int(batch["codes_offset"][row]), int(batch["codes_length"][row])
        assert count == min(10, len(whole[key][0]))
        assert abs(first * 320 - int(batch["frame_offset"][row])) <= 160
        assert torch.equal(batch["codes"][row, :count], whole[key][0][first : first + count])
        start, number = int(batch["levels_offset"][row]), int(batch["levels_length"][row])
        assert torch.allclose(batch["levels"][row, :number], whole[key][2][start : start + number], atol=1e-6)
        assert torch.allclose(batch["embedding"][row], whole[key][1], atol=1e-6)


def test_two_sets_of_one_output_are_named_by_their_folders(root):
    Built(root).commit()
    Built(root, "loud", scale=2.0).commit()
    (batch,) = batches(root, latents=["mel", "loud"], batch_size=4)
    assert {"codes_mel", "codes_loud", "codes_mel_length", "embedding_loud"} <= batch.keys()
    assert "codes" not in batch
    count = int(batch["codes_mel_length"][0])
    double = batch["codes_loud"][0, :count].float() / batch["codes_mel"][0, :count].float().clamp(min=1)
    assert 1.8 < float(double.mean()) < 2.2


@pytest.mark.medium
def test_only_wanted_outputs_are_read(root):
    Built(root).commit()
    (batch,) = batches(root, latents=["mel"], fields=["embedding"], batch_size=4)
    assert "embedding" in batch
    assert not {"codes", "levels", "audio"} & batch.keys()
    (own,) = batches(root / "latents/mel", fields=["embedding"], batch_size=4)
    assert torch.equal(own["embedding"].sort(0).values, batch["embedding"].sort(0).values)
    assert "codes" not in own


@pytest.mark.medium
def test_codes_are_padded_with_what_the_user_says(root):
    Built(root).commit()
    (batch,) = batches(root / "latents/mel", pad={"codes": 777}, batch_size=4)
    shortest = int(batch["codes_length"].argmin())
    assert (batch["codes"][shortest, int(batch["codes_length"][shortest]) :] == 777).all()
    Built(root, "unsigned", dtype="uint16").commit()
    (other,) = batches(root / "latents/unsigned", batch_size=4, output="numpy")
    assert other["codes"].dtype == np.uint16
    assert (other["codes"][shortest, int(other["codes_length"][shortest]) :] == 65535).all()


def test_padding_rows_hold_no_codes(root):
    Built(root).commit()
    *_, last = batches(root / "latents/mel", batch_size=3)
    row = int(last["is_padding"].nonzero()[0])
    assert (last["codes"][row] == -1).all()
    assert int(last["codes_length"][row]) == 0


def test_windows_of_codes_meet_at_a_seam_and_equal_the_whole(root):
    Built(root, window=6400).commit()
    assert_outputs_of_windows = rows(batches(root / "latents/mel", batch_size=4))
    for key, samples in clips().items():
        codes, _, levels = expected(samples)
        assert torch.equal(assert_outputs_of_windows[key][0], codes)
        assert torch.allclose(assert_outputs_of_windows[key][2], levels, atol=1e-6)


def test_outputs_of_unchanged_audio_are_kept(root):
    built = Built(root).commit()
    samples = clips() | {"k3": noise(700, 9)}
    commit(
        built.audio, write_partition(built.audio, [dict(list(samples.items())[:2]), dict(list(samples.items())[2:])])
    )
    found = built.build()
    assert (found.stats.num_kept, len(found.written)) == (1, 1)


def test_numbers_that_are_no_codes_are_rejected_by_sample(root):
    built = Built(root, scale=1000.0)
    built.build()
    (refused, *_) = newest_manifest(built.storage, PARTITION).manifest.refused
    assert "its codes are not from 0 to the largest int16" in refused.reason
    commit_latents(built.audio, built.storage, built.settings)
    with pytest.raises(SampleError, match="were rejected"):
        list(batches(root / "latents/mel", batch_size=4))


@pytest.mark.medium
def test_a_flipped_bit_of_any_output_is_an_error(root):
    built = Built(root).commit()
    shard = newest_manifest(built.storage, PARTITION).manifest.shards[0].name
    index, path = read_index(built.storage, shard), root / "latents/mel" / shard
    sound = path.read_bytes()
    for number in range(3):
        blob = bytearray(sound)
        blob[int(index.tensors[0, number, 0])] ^= 1
        path.chmod(0o644)
        path.write_bytes(blob)
        with pytest.raises(SampleError, match=r"its latents: CRC-32 .* expected"):
            list(batches(root / "latents/mel", batch_size=4))


UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int32]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_codes_and_lengths_may_be_of_any_integer_dtype(root, monkeypatch, dtype):
    right = Quantizer.encode

    def other(self, *given):
        found = right(self, *given)
        codes, lengths = found["codes"]
        return found | {"codes": (codes.clamp(0, 255).to(dtype), lengths.to(dtype))}

    monkeypatch.setattr(Quantizer, "encode", other)
    Built(root).commit()
    assert_outputs(rows(batches(root / "latents/mel", batch_size=4)))


OTHERS = {
    "12345 PCM frames, .*of levels and the length 39: expected about 19, because its hop is 640": lambda found: (
        found | {"levels": (found["codes"][0][..., :1].float(), found["codes"][1])}
    ),
    "a dict of codes, expected a dict of": lambda found: {"codes": found["codes"]},
    "as codes, expected .integers": lambda found: found | {"codes": (found["codes"][0].float(), found["codes"][1])},
    "as embedding, expected floating point": lambda found: found | {"embedding": found["embedding"][:, :2]},
    "the length 99: expected 1 to": lambda found: found | {"levels": (found["levels"][0], found["levels"][1] * 0 + 99)},
}


@pytest.mark.parametrize("words", OTHERS)
def test_an_encoder_that_gives_other_outputs_is_named(root, monkeypatch, words):
    right = Quantizer.encode
    monkeypatch.setattr(Quantizer, "encode", lambda self, *given: OTHERS[words](right(self, *given)))
    with pytest.raises(BuildError, match=f"{NAME}.*{words}"):
        Built(root).build()
