"""Named audio fields in both loaders: every way to make a batch gives each field, cut at the same frames."""

import os
import shutil

import numpy as np
import pytest
import torch

import headrace
from headrace import LengthBuckets, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.audio_names import check_audio_field
from headrace.cli import main
from headrace.errors import ConfigError, FormatError, SampleError
from headrace.format.indexes.index_files import read_index
from headrace.plain.samples import decode_sample
from headrace.stores.storage import LocalStorage
from headrace.streaming.samples.fields import OF_LATENTS, OF_SAMPLES
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.streaming.corpus import RATE_HZ, clips, write_dataset
from tests.support.streaming.stems import Song, foreign_stems, songs, write_stems
from tests.support.tars import tar_of

SONGS = songs(10)
BY_KEY = {song.key: song for song in SONGS}


@pytest.fixture(scope="module")
def stems(tmp_path_factory):
    """An output of ten songs in three shards."""
    folder = tmp_path_factory.mktemp("stems")
    write_stems(folder, SONGS)
    return folder


def as_is(sample):
    return sample


def only_fields(sample):
    """A new dict, as transforms often return."""
    return {name: sample[name] for name in ("__key__", "mix", "vocals", "sample_rate", "metadata")}


def check_whole(batch, by_key=BY_KEY):
    """Every row has both fields of its song, and zeros after their end."""
    for row, key in enumerate(batch["keys"]):
        for name, wanted in (by_key[key].audio() if key else {}).items():
            count = wanted.shape[1]
            assert int(batch["num_frames"][row]) == count
            assert np.array_equal(np.asarray(batch[name])[row, :, :count], wanted)
            assert not np.asarray(batch[name])[row, :, count:].any()


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("transform", [None, as_is, only_fields])
def test_batches_have_a_tensor_for_each_field(stems, num_workers, transform):
    dataset = StreamingDataset(remote=str(stems), batch_size=4, shuffle=True, transform=transform)
    keys = []
    for batch in StreamingDataLoader(dataset, num_workers=num_workers):
        assert batch.keys() >= {"keys", "mix", "vocals", "num_frames", "sample_rate", "metadata", "is_padding"}
        assert "audio" not in batch
        assert batch["mix"].dtype == batch["vocals"].dtype == torch.float32
        assert batch["mix"].shape[1:] == (2, batch["num_frames"].max())
        assert batch["vocals"].shape[1:] == (1, batch["num_frames"].max())
        check_whole(batch)
        keys += batch["keys"]
    assert sorted(filter(None, keys)) == sorted(BY_KEY)


def test_a_sample_has_each_field_by_its_name(stems):
    sample = StreamingDataset(remote=str(stems))[3]
    assert sample.keys() == {"__key__", "__audio__", "mix", "vocals", "sample_rate", "metadata"}
    assert sample["__audio__"] == ("mix", "vocals")
    assert sample["sample_rate"] == RATE_HZ
    for name, wanted in SONGS[3].audio().items():
        assert np.array_equal(sample[name].numpy(), wanted)


def with_offset(sample):
    return only_fields(sample) | {"frame_offset": sample["frame_offset"]}


@pytest.mark.parametrize(
    "settings",
    [{"crop_frames": 200}, {"crop_seconds": 0.02}, {"crop_frames": 150, "transform": with_offset}],
)
def test_a_crop_cuts_all_fields_at_the_same_frames(stems, settings):
    dataset = StreamingDataset(remote=str(stems), batch_size=5, shuffle=True, **settings)
    first_frames = set()
    for batch in StreamingDataLoader(dataset):
        for row, key in enumerate(batch["keys"]):
            first, count = int(batch["frame_offset"][row]), int(batch["num_frames"][row])
            first_frames.add(first)
            for name, wanted in BY_KEY[key].audio().items():
                assert np.array_equal(batch[name][row, :, :count].numpy(), wanted[:, first : first + count])
            assert torch.equal(batch["vocals"][row, 0, :count], -batch["mix"][row, 0, :count])
    assert len(first_frames) > 3


def test_all_fields_are_resampled(stems):
    dataset = StreamingDataset(remote=str(stems), batch_size=5, sample_rate=4000, output="numpy")
    for batch in StreamingDataLoader(dataset):
        assert (batch["sample_rate"] == 4000).all()
        assert np.allclose(batch["vocals"][:, 0], -batch["mix"][:, 0], atol=1e-6)
        assert batch["num_frames"].tolist() == [(BY_KEY[key].num_frames + 1) // 2 for key in batch["keys"]]


def test_length_buckets_and_torchs_loader_and_collate_functions_take_named_fields(stems):
    dataset = StreamingDataset(remote=str(stems), batch_size=4, shuffle=True, batching=LengthBuckets(2))
    for batch in StreamingDataLoader(dataset):
        check_whole(batch)
    for batch in torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=headrace.collate):
        check_whole(batch)
    for batch in StreamingDataLoader(dataset, collate_fn=headrace.collate):
        check_whole(batch)


def test_a_padding_row_has_zeros_in_each_field(stems):
    for transform in (None, only_fields):
        dataset = StreamingDataset(remote=str(stems), batch_size=4, transform=transform)
        last = list(StreamingDataLoader(dataset))[-1]
        assert last["is_padding"].tolist() == [False, False, True, True]
        assert not last["mix"][2:].any()
        assert not last["vocals"][2:].any()
        assert last["num_frames"][2:].tolist() == [0, 0]


def test_a_transform_may_remove_a_field_or_add_one(stems):
    def with_rest(sample):
        sample["rest"] = sample.pop("mix")[:1] + sample["vocals"]
        sample["__audio__"] = (*sample["__audio__"], "rest")
        return sample

    for batch in StreamingDataLoader(StreamingDataset(remote=str(stems), batch_size=5, transform=with_rest)):
        assert "mix" not in batch
        assert batch["rest"].shape == batch["vocals"].shape
        assert not batch["rest"].any()


def test_a_transform_that_gives_fields_of_different_lengths_is_an_error(stems):
    def shortened(sample):
        return sample | {"vocals": sample["vocals"][:, :100]}

    dataset = StreamingDataset(remote=str(stems), batch_size=5, transform=shortened)
    with pytest.raises(SampleError, match="audio fields of different lengths"):
        list(StreamingDataLoader(dataset))


def test_the_plain_loader_gives_the_same_samples(stems):
    for batch_size in (4, None):
        found = list(webdataset_loader(str(stems / "audio"), batch_size=batch_size))
        for batch in found:
            if batch_size is not None:
                check_whole(batch)
                continue
            for name, wanted in BY_KEY[batch["__key__"]].audio().items():
                assert np.array_equal(batch[name].numpy(), wanted)
        assert sum(len(batch["keys"]) if batch_size else 1 for batch in found) == len(SONGS)


def test_the_json_says_which_fields_are_audio_where_there_is_no_index(stems, tmp_path):
    for tar in (stems / "audio").glob("*.tar"):
        shutil.copy(tar, tmp_path)
    for batch in webdataset_loader(str(tmp_path), batch_size=4):
        check_whole(batch)
    for batch in StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=4)):
        check_whole(batch)
    song = SONGS[0]
    sample = decode_sample({"__key__": song.key, "json": song.json()} | song.payloads())
    assert sample["__audio__"] == ("mix", "vocals")


def test_fields_end_with_the_shortest_within_the_tolerance(tmp_path):
    made = [Song(0, 800, missing=0), Song(1, 800, missing=int(0.05 * RATE_HZ)), Song(2, 900, missing=1)]
    write_stems(tmp_path, made)
    by_key = {song.key: song for song in made}
    for transform in (None, as_is):
        dataset = StreamingDataset(remote=str(tmp_path), batch_size=3, transform=transform)
        for batch in StreamingDataLoader(dataset):
            check_whole(batch, by_key)
    for batch in webdataset_loader(str(tmp_path), batch_size=3):
        check_whole(batch, by_key)
    assert not verify(find_target(str(tmp_path)), Depth(samples_per_shard=3)).faults


def test_the_index_has_the_facts_of_each_field(stems):
    storage = LocalStorage(stems / "audio")
    index = read_index(storage, next(entry.path for entry in storage.list("") if entry.path.endswith(".tar")))
    assert index.audio_fields == ("mix", "vocals")
    assert index.fields == ("json", "mix.flac", "vocals.flac")
    assert index.audio_facts is not None
    assert index.audio_facts[..., 1].tolist() == [[2, 1]] * len(index)
    assert (index.audio_facts[..., 0] == index.num_frames[:, None]).all()


def test_a_batch_of_samples_with_and_without_named_fields_is_an_error(stems, tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    streams = [headrace.Stream(str(stems)), headrace.Stream(str(tmp_path))]
    dataset = StreamingDataset(streams=streams, batch_size=8, shuffle=True)
    with pytest.raises(ConfigError, match=r"has no (mix|audio), others of its batch have"):
        list(StreamingDataLoader(dataset))
    apart = StreamingDataset(streams=streams, batch_size=2, shuffle=True, batching_method="per_stream")
    assert {frozenset(batch) & {"mix", "audio"} for batch in StreamingDataLoader(apart)} == {
        frozenset({"mix"}),
        frozenset({"audio"}),
    }


def test_a_field_that_cannot_be_decoded_is_named_with_its_sample(tmp_path):
    write_stems(tmp_path, SONGS[:2])
    storage = LocalStorage(tmp_path / "audio")
    shard = next(entry.path for entry in storage.list("") if entry.path.endswith(".tar"))
    start, stop = read_index(storage, shard).range_of(1, "vocals.flac")
    with (tmp_path / "audio" / shard).open("r+b") as file:
        file.seek((start + stop) // 2)
        file.write(bytes(20))
    with pytest.raises(SampleError, match=r"song00001.*vocals"):
        list(StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=2)))
    skipping = StreamingDataset(remote=str(tmp_path), batch_size=2, on_bad_sample="skip")
    (batch,) = StreamingDataLoader(skipping)
    assert batch["is_padding"].tolist() == [False, True]
    assert batch["mix"].shape[2] == batch["vocals"].shape[2] == SONGS[0].num_frames
    faults = verify(find_target(str(tmp_path)), Depth(samples_per_shard=2)).faults
    assert any("song00001.vocals.flac" in fault.what for fault in faults)


def foreign(folder, samples):
    """A folder with one tar of others, whose audio fields no index names."""
    folder.mkdir(exist_ok=True)
    (folder / "a.tar").write_bytes(foreign_stems(samples))
    return folder


def test_tars_of_others_have_audio_fields_once_an_index_names_them(tmp_path):
    folder = foreign(tmp_path / "tars", SONGS[:4])
    with pytest.raises(FormatError, match="headrace index --audio-fields"):
        StreamingDataset(remote=str(folder))
    assert main(["index", str(folder), "--audio-fields", "vocals,mix"]) == 0
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=4))
    check_whole(batch)
    assert batch["txt"] == [b"words"] * 4
    check_whole(next(iter(webdataset_loader(str(folder), batch_size=4))))
    assert main(["verify", str(folder)]) == 0
    assert main(["index", str(folder)]) == 0  # the names stay
    assert StreamingDataset(remote=str(folder))[0]["__audio__"] == ("vocals", "mix")
    foreign(folder, SONGS[4:7])
    os.utime(folder / "a.idx", (1, 1))  # older than the tar
    (folder / "sizes.json").unlink()
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=3, local=str(tmp_path / "cache")))
    check_whole(batch)


@pytest.mark.parametrize("names", ["mix,drums", "mix,json", "Mix", "mix,", "encoder_x", "audio_length/x"])
def test_wrong_names_of_audio_fields_are_an_error(tmp_path, names, capsys):
    folder = foreign(tmp_path, SONGS[:1])
    try:
        code = main(["index", str(folder), "--audio-fields", names])
    except SystemExit as end:
        code = end.code
    assert code in {1, 2}
    assert ("drums" if "drums" in names else "cannot be the name of an audio field") in "".join(capsys.readouterr())
    assert not (folder / "a.idx").exists()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (Song(5, 900, missing=401), r"song00005: .*differ in length by more than 0\.05 s \(mix: 900, vocals: 499"),
        (Song(5, 900, missing=900), "song00005"),
    ],
)
def test_a_sample_whose_fields_differ_too_much_is_refused_by_name(tmp_path, made, message):
    folder = foreign(tmp_path, [*SONGS[:2], made])
    assert main(["index", str(folder), "--audio-fields", "mix,vocals"]) == 0
    message = message.replace("song00005: ", "song00005'?: ")
    for settings in ({}, {"transform": as_is}):
        with pytest.raises(SampleError, match=message):
            list(StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=3, **settings)))
    with pytest.raises(SampleError, match=message):
        list(webdataset_loader(str(folder), batch_size=3))


def test_a_sample_without_one_of_the_fields_is_refused_by_name(tmp_path):
    members = {f"{song.key}.{name}": blob for song in SONGS[:2] for name, blob in song.payloads().items()}
    del members[f"{SONGS[1].key}.vocals.flac"]
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    assert main(["index", str(tmp_path), "--audio-fields", "mix,vocals"]) == 0
    dataset = StreamingDataset(remote=str(tmp_path), batch_size=2)
    for read in (lambda: list(StreamingDataLoader(dataset)), lambda: list(webdataset_loader(str(tmp_path)))):
        with pytest.raises(SampleError, match=r"song00001'?: .*no audio field 'vocals'"):
            read()


def test_every_name_that_samples_and_batches_use_is_refused_as_an_audio_field():
    for name in (*OF_SAMPLES, *OF_LATENTS, "keys", "num_frames", "flac", "mp3", "json", "pth", "a.b", "", "A"):
        if name == "audio":
            assert check_audio_field(name) == "audio"
            continue
        with pytest.raises(ConfigError, match="cannot be the name of an audio field"):
            check_audio_field(name)
