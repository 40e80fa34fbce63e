"""Fields that no batch can hold: what a transform gave, and files that are called as a field of the batch itself."""

import numpy as np
import pytest
import torch

from headrace import Stream, StreamingDataLoader, StreamingDataset, collate
from headrace.errors import ConfigError, SampleError
from tests.streaming.test_loader import make
from tests.support.streaming.corpus import Clip, clips
from tests.support.tars import write_tar


def giving(**fields):
    return lambda sample: sample | fields


ODD = {
    "a number": (lambda sample: 5, "a value of type int: expected a sample, a dict of fields"),
    "a list": (lambda sample: [sample], "a value of type list: expected a sample"),
    "a field without a name": (lambda sample: sample | {5: 1}, "a field named 5: expected a string"),
    "no audio": (giving(audio=None), "None as audio: expected an array or tensor"),
    "audio in a list": (giving(audio=[0.5]), "a list as audio: expected an array or tensor"),
    "flat audio": (giving(audio=torch.zeros(5)), r"audio of shape \(5,\) .*expected real numbers \(channels, frames\)"),
    "spectra": (giving(audio=np.zeros((1, 5), complex)), "audio of .* dtype complex128: expected real numbers"),
    "no rate": (giving(sample_rate=None), "None as sample_rate: expected a whole number"),
    "a rate in words": (giving(sample_rate="8k"), "'8k' as sample_rate: expected a whole number"),
    "flat latents": (giving(encoder_hidden=np.zeros(3)), r"encoder_hidden of shape \(3,\)"),
    "two lengths": (giving(encoder_length=torch.ones(2)), "a Tensor as encoder_length: expected a whole number"),
    "keys of its own": (giving(keys="mine"), "a field 'keys', which a batch has of its own"),
    "lengths of its own": (giving(num_frames=7), "a field 'num_frames', which a batch has of its own"),
    "a length behind the end": (
        giving(encoder_hidden=np.zeros((3, 2)), encoder_length=4), "encoder_length 4: expected 0 to 3"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_what_a_transform_gave_is_named_with_shard_and_key(dataset_folder, case):
    transform, found = ODD[case]
    with pytest.raises(SampleError, match=rf"train_.*tar: sample 'clip\d+': the transform gave {found}"):
        next(iter(StreamingDataLoader(make(dataset_folder, transform=transform))))


def test_a_sample_of_which_the_transform_makes_nonsense_can_be_skipped(dataset_folder):
    def transform(sample):
        return 5 if sample["__key__"] == "clip00003" else sample

    dataset = make(dataset_folder, transform=transform, on_bad_sample="skip")
    keys = {key for batch in StreamingDataLoader(dataset) for key in batch["keys"]}
    assert keys - {""} == {clip.key for clip in clips(53)} - {"clip00003"}


def test_latents_that_a_transform_makes_are_as_long_as_they_are(dataset_folder):
    def transform(sample):
        return sample | {"encoder_hidden_mel": sample["audio"][0, : 3 + int(sample["__key__"][-1])].reshape(-1, 1)}

    for batch in StreamingDataLoader(make(dataset_folder, transform=transform)):
        expected = [3 + int(key[-1]) if key else 0 for key in batch["keys"]]
        assert batch["encoder_length_mel"].tolist() == expected


@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_is_said_of_audio_stays_when_a_transform_takes_the_audio_away(dataset_folder, num_workers):
    dataset = make(dataset_folder, transform=without_audio, crop_seconds=0.01)
    for batch in StreamingDataLoader(dataset, num_workers=num_workers):
        assert "audio" not in batch
        assert batch["sample_rate"].tolist() == [8_000 if key else 0 for key in batch["keys"]]
        assert batch["sample_rate"].dtype == batch["frame_offset"].dtype == torch.int64
        assert len(batch["energy"]) == len(batch["keys"])


def without_audio(sample):
    return sample | {"energy": float(sample.pop("audio").square().sum())}


def test_collate_names_the_sample_with_a_flaw():
    with pytest.raises(ConfigError, match="sample 'a' of a batch has a list as audio: expected"):
        collate([{"__key__": "a", "audio": [0.5]}])
    with pytest.raises(ConfigError, match="sample number 0 of a batch has a value of type int"):
        collate([5])


def only_batch(folder, **more):
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=2, **more))
    return batch


TAKEN = ["audio", "sample_rate", "frame_offset", "keys", "num_frames", "metadata", "is_padding", "__key__",
         "encoder_hidden", "encoder_length_b", "encoder_offset"]  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("how", [{}, {"transform": lambda sample: sample}, {"on_bad_sample": "skip"}])
def test_a_file_called_as_a_field_of_the_batch_is_rejected(tmp_path, name, how):
    flac = clips(1)[0].flac()
    write_tar(tmp_path / "x.tar", [("a.flac", flac), ("b.flac", flac), (f"b.{name}", b"zz")])
    with pytest.raises(ConfigError, match=rf"x\.tar: sample 'b': its file \.{name} .*rename such files in the tar"):
        only_batch(tmp_path, **how)


def test_files_of_any_other_name_are_fields(tmp_path):
    flac = clips(1)[0].flac()
    write_tar(tmp_path / "x.tar", [("a.flac", flac), ("a.key", b"zz"), ("b.flac", flac), ("b.hidden", b"y")])
    batch = only_batch(tmp_path)
    assert (batch["key"], batch["hidden"]) == ([b"zz", None], [None, b"y"])


@pytest.mark.parametrize("how", [{}, {"transform": lambda sample: sample}])
def test_samples_of_a_batch_that_differ_in_channels_are_named(tmp_path, how):
    for number in range(2):
        flac = Clip(number, 300, 1 + number).flac()
        write_tar(tmp_path / f"{number}.tar", [(f"clip{number}.flac", flac)])
    with pytest.raises(
        ConfigError, match=r"1 and 2 channels \(1 in .*/0\.tar: sample 'clip0', 2 in .*/1\.tar: sample 'clip1'"
    ):
        only_batch(tmp_path, **how)


def test_a_sample_without_audio_that_a_transform_leaves_so_is_named_and_not_skipped(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.flac", clips(1)[0].flac()), ("b.json", b"{}")])
    with pytest.raises(ConfigError, match=r"x\.tar: sample 'b' has no audio.*on_bad_sample=\"skip\" skips what cannot"):
        only_batch(tmp_path, on_bad_sample="skip", transform=lambda sample: sample)


def test_json_that_is_none_is_called_so(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.flac", clips(1)[0].flac()), ("a.json", b"{nope")])
    for how in ({}, {"transform": lambda sample: sample}):
        with pytest.raises(SampleError, match=r"x\.tar: sample 'a': its \.json is not valid JSON \(Expecting property"):
            only_batch(tmp_path, **how)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"b.jpg": b"image"}, r"other/x\.tar: sample 'b' has no audio, others of its batch have: .*\"per_stream\""),
        ({"b.flac": clips(1, num_channels=2)[0].flac()}, r"1 and 2 channels \(1 in .*/plain/x\.tar: .*\"per_stream\""),
    ],
    ids=["images", "stereo"],
)
def test_streams_of_different_fields_give_an_error_that_names_per_stream_batches(tmp_path, other, words):
    for name, members in (("plain", {"a.flac": clips(1)[0].flac()}), ("other", other)):
        (tmp_path / name).mkdir()
        write_tar(tmp_path / name / "x.tar", list(members.items()))

    def read(**arguments):
        streams = [Stream(remote=tmp_path / name) for name in ("plain", "other")]
        return list(StreamingDataLoader(StreamingDataset(streams=streams, **arguments)))

    with pytest.raises(ConfigError, match=words):
        read(batch_size=2)
    assert len(read(batch_size=1, batching_method="per_stream")) == 2
