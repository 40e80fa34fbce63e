"""Columns that are joined to samples: values, tensors, names that clash, snapshots, and damaged files."""

import json
import math

import numpy as np
import pytest
import torch

from headrace import Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, FormatError, NotFoundError, SampleError, StateError
from headrace.format.beside.column_files import publish_columns, read_columns
from headrace.format.beside.column_table import ColumnTable
from headrace.format.shards.writer import ShardPlace
from headrace.stores.storage import LocalStorage
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset, write_latents

SAMPLES = {"train": clips(13), "test": clips(4, first=200)}
CAPTIONS = {spec("caption", "string"): lambda clip: None if clip.number % 3 == 0 else f"Nr. {clip.number} ä"}
QUALITY = {
    spec("snr", "float"): lambda clip: None if clip.number % 4 == 0 else clip.number / 3,
    spec("language", "int"): lambda clip: clip.number - 5,
    spec("is_clean", "bool"): lambda clip: clip.number % 2 == 0,
    spec("tags", "json"): lambda clip: ["a", clip.number],
    spec("vector", "json"): lambda clip: None if clip.number % 5 == 0 else [clip.number, 0.5, -1],
    spec("ragged", "json"): lambda clip: [0] * (1 + clip.number % 2),
}
BOTH = {"columns": ["captions", "quality"], "tensors": ["snr", "language", "is_clean"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An output with latents and two sets of columns."""
    made = tmp_path_factory.mktemp("columns")
    audio = write_dataset(made, SAMPLES, latents=True)
    write_columns(made, "captions", CAPTIONS, SAMPLES, audio)
    write_columns(made, "quality", QUALITY, SAMPLES, audio)
    return made


def opened(folder, where="audio", **more):
    return StreamingDataset(**{"remote": f"{folder}/{where}", "split": "train", "batch_size": 4, **BOTH, **more})


def wanted(clip):
    """The columns of a clip as metadata."""
    return {one.name: value(clip) for one, value in (CAPTIONS | QUALITY).items()}


def check(batch):
    by_key = {clip.key: clip for clips_of in SAMPLES.values() for clip in clips_of}
    for row, key in enumerate(batch["keys"]):
        if not key:
            assert (batch["metadata"][row], float(batch["snr"][row]), int(batch["language"][row])) == ({}, 0.0, 0)
            continue
        clip = by_key[key]
        assert batch["metadata"][row] == json.loads(clip.json()) | wanted(clip)
        snr = QUALITY[spec("snr", "float")](clip)
        np.testing.assert_array_equal(np.float32(batch["snr"][row]), np.float32(math.nan if snr is None else snr))
        assert int(batch["language"][row]) == clip.number - 5
        assert bool(batch["is_clean"][row]) is (clip.number % 2 == 0)


def _same(sample):
    return sample


@pytest.mark.parametrize("transform", [None, _same], ids=["in place", "sample by sample"])
@pytest.mark.parametrize("where", ["audio", "latents/crepe"])
def test_batches_have_the_columns_as_metadata_and_tensors(folder, where, transform):
    batches = list(StreamingDataLoader(opened(folder, where, shuffle=True, transform=transform)))
    assert sum(len(batch["keys"]) for batch in batches) == 16
    for batch in batches:
        check(batch)
        kinds = [batch[name].dtype for name in BOTH["tensors"]]
        assert kinds == [torch.float32, torch.int64, torch.bool]


@pytest.mark.medium
def test_worker_processes_make_the_same_batches(folder):
    one, two = (list(StreamingDataLoader(opened(folder), num_workers=number)) for number in (0, 1))
    for batch, other in zip(one, two, strict=True):
        check(other)
        assert batch["metadata"] == other["metadata"]
        assert torch.equal(batch["language"], other["language"])


def test_a_single_sample_has_numbers_without_axes(folder):
    sample = opened(folder)[5]
    assert sample["snr"].shape == ()
    assert sample["snr"].dtype == torch.float32
    assert sample["metadata"] == json.loads(SAMPLES["train"][5].json()) | wanted(SAMPLES["train"][5])
    number = opened(folder, output="numpy")[5]["snr"]
    assert isinstance(number, np.float32)


def test_a_transform_sees_the_columns(folder):
    def transform(sample):
        return sample | {"length": len(sample["metadata"]["caption"] or "") + int(sample["language"])}

    batch = next(iter(StreamingDataLoader(opened(folder, transform=transform))))
    assert batch["length"].tolist() == [-5, 7 - 4, 7 - 3, -2]


@pytest.mark.parametrize("world_size", [2, 3])
def test_global_batches_do_not_depend_on_the_world(folder, world_size):
    def batches(size):
        """Key, metadata and language of the rows of each global batch; ranks take its rows in turn."""
        worlds = [World(rank, size) for rank in range(size)]
        loaders = [StreamingDataLoader(opened(folder, world=w, batch_size=6 // size, shuffle=True)) for w in worlds]
        rows = [[zip(b["keys"], b["metadata"], b["language"].tolist(), strict=True) for b in one] for one in loaders]
        return [[row for together in zip(*parts, strict=True) for row in together] for parts in zip(*rows, strict=True)]

    assert batches(world_size) == batches(1)


def test_null_integers_need_a_value_that_stands_for_them(tmp_path):
    audio = write_dataset(tmp_path, {"train": clips(3)})
    speaker = {spec("speaker", "int"): lambda clip: None if clip.number == 1 else clip.number}
    write_columns(tmp_path, "who", speaker, {"train": clips(3)}, audio)
    more = {"remote": tmp_path, "columns": ["who"], "batch_size": 3}
    with pytest.raises(SampleError, match=r"clip00001.*'speaker' of the set 'who' has no value.*\{'speaker': -1\}"):
        next(iter(StreamingDataLoader(StreamingDataset(**more, tensors=["speaker"]))))
    batch = next(iter(StreamingDataLoader(StreamingDataset(**more, tensors={"speaker": -1}))))
    assert batch["speaker"].tolist() == [0, -1, 2]
    assert [one["speaker"] for one in batch["metadata"]] == [0, None, 2]


def test_names_that_two_sets_have_are_an_error_at_opening(folder, tmp_path):
    audio = write_dataset(tmp_path, SAMPLES)
    write_columns(tmp_path, "captions", CAPTIONS, SAMPLES, audio)
    write_columns(tmp_path, "others", CAPTIONS, SAMPLES, audio)
    with pytest.raises(ConfigError, match="'caption' of the set 'others' is also in the set 'captions'"):
        StreamingDataset(remote=tmp_path, columns=["captions", "others"])
    write_columns(tmp_path, "titles", {spec("title", "string"): lambda clip: clip.key}, SAMPLES, audio)
    with pytest.raises(ConfigError, match=r"'title' of the set 'titles' is also in the JSON of .*audio.*json: minimal"):
        StreamingDataset(remote=tmp_path, columns=["titles"])


def test_the_set_metadata_adds_what_the_json_lacks(tmp_path):
    audio = write_dataset(tmp_path, SAMPLES)
    table = {
        spec("title", "string"): lambda _: "not this one",
        spec("year", "int"): lambda clip: 1900 + clip.number,
        spec("year", "string", is_fact=True): lambda _: "not this one",
        spec("duration_seconds", "float", is_fact=True): lambda clip: clip.num_frames / 8000,
    }
    write_columns(tmp_path, "metadata", table, SAMPLES, audio)
    sample = StreamingDataset(remote=tmp_path, split="train", columns=["metadata"])[2]
    clip = SAMPLES["train"][2]
    seconds = clip.num_frames / 8000
    assert sample["metadata"] == json.loads(clip.json()) | {"year": 1902, "duration_seconds": seconds}
    only = StreamingDataset(remote=tmp_path, split="train", tensors=["duration_seconds"])[2]
    assert float(only["duration_seconds"]) == np.float32(seconds)
    assert only["metadata"] == json.loads(clip.json())
    write_columns(tmp_path, "years", {spec("year", "int"): lambda _: 0}, SAMPLES, audio)
    with pytest.raises(ConfigError, match="'year' of the set 'years' is also in the JSON of the samples"):
        StreamingDataset(remote=tmp_path, columns=["years"])  # if `title` is in the JSON, all columns of the table are
    with pytest.raises(ConfigError, match="'year' of the set 'years' is also in the set 'metadata'"):
        StreamingDataset(remote=tmp_path, columns=["metadata", "years"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tensors": ["nothing"]}, "tensors: no set that is read of .* has a column 'nothing'; the columns of"),
        ({"tensors": ["caption"]}, "tensors: 'caption' of the set 'captions' holds text"),
        ({"tensors": ["tags"]}, "tensors: 'tags' of the set 'quality' holds lists or objects"),
        ({"tensors": {"caption": 0.5, "snr": 0}}, "tensors: 'caption' of the set 'captions' holds text"),
        ({"tensors": {"snr": ["a"]}}, r"tensors\['snr'\]: labels are for text, and the column is float"),
        ({"tensors": {"snr": "low"}}, r"tensors\['snr'\] is 'low': expected a number"),
        ({"tensors": {"language": 0.5}}, r"tensors\['language'\] is 0.5, .* is int64: expected a whole number"),
        ({"tensors": {"language": math.nan}}, r"tensors\['language'\] is nan, .*: expected a whole number"),
        ({"tensors": {"language": 1 << 63}}, r"tensors\['language'\] is 9223372036854775808, .* of 64 bits"),
        ({"tensors": {"is_clean": 2}}, r"tensors\['is_clean'\] is 2, and the column is bool: expected True or False"),
        ({"tensors": "snr"}, "tensors is 'snr': expected a list of names"),
        ({"columns": "captions"}, r"columns is 'captions': expected a list of names, such as"),
        ({"columns": ["captions", "captions"]}, "two sets are called 'captions'"),
        ({"columns": [7]}, r"columns\[0\] is 7: expected a path"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(folder, arguments, message):
    with pytest.raises(ConfigError, match=message):
        opened(folder, **arguments)


def test_folders_of_other_kinds_are_named(folder, tmp_path):
    with pytest.raises(NotFoundError, match=r"columns='words': .*/columns/words .*; there are captions, quality"):
        opened(folder, columns=["words"])
    with pytest.raises(ConfigError, match=r"crepe: holds latents, not columns: pass it as latents=\[…\]"):
        opened(folder, columns=[f"{folder}/latents/crepe"], tensors=[])
    with pytest.raises(ConfigError, match=r"quality: holds columns, not latents: pass it as columns=\[…\]"):
        opened(folder, latents=[f"{folder}/columns/quality"])
    with pytest.raises(ConfigError, match=r"columns/quality: a set of columns, which has no samples"):
        StreamingDataset(remote=f"{folder}/columns/quality")
    (tmp_path / "a.tar").write_bytes(bytes(10240))
    with pytest.raises(ConfigError, match=r"columns=\['captions'\] needs snapshots"):
        StreamingDataset(remote=tmp_path, columns=["captions"])


@pytest.mark.parametrize(("tensors", "null"), [(["vector"], math.nan), ({"vector": 0}, 0)])
@pytest.mark.parametrize("transform", [None, lambda sample: sample])
def test_lists_of_numbers_of_one_length_come_as_rows(folder, tensors, null, transform):
    found = {}
    for batch in StreamingDataLoader(opened(folder, tensors=tensors, transform=transform)):
        assert (batch["vector"].dtype, batch["vector"].shape) == (torch.float32, (4, 3))
        found |= dict(zip(batch["keys"], batch["vector"].tolist(), strict=True))
    for clip in SAMPLES["train"]:
        np.testing.assert_equal(found[clip.key], [null] * 3 if clip.number % 5 == 0 else [clip.number, 0.5, -1])


def test_lists_of_other_lengths_are_errors_of_their_samples(folder):
    with pytest.raises(SampleError, match=r"column 'ragged' of the set 'quality': expected a list of . numbers"):
        list(StreamingDataLoader(opened(folder, tensors=["ragged"])))


def test_a_tensor_with_the_name_of_a_field_is_an_error(tmp_path):
    audio = write_dataset(tmp_path, SAMPLES)
    for number, name in enumerate(("sample_rate", "flac")):
        write_columns(tmp_path, f"x{number}", {spec(name, "int"): lambda _: 1}, SAMPLES, audio)
        with pytest.raises(ConfigError, match=f"'{name}' of the set 'x{number}' is a tensor and has the name of"):
            StreamingDataset(remote=tmp_path, columns=[f"x{number}"], tensors=[name])


def test_streams_take_the_columns_of_the_dataset_or_their_own(folder):
    own = Stream(f"{folder}/audio", split="test", columns=[f"{folder}/columns/quality"])
    streams = [Stream(f"{folder}/audio", split="train"), own]
    dataset = StreamingDataset(streams=streams, columns=BOTH["columns"], tensors=["snr"])
    assert "caption" in dataset[0]["metadata"]
    assert "caption" not in dataset[13]["metadata"]
    assert "tags" in dataset[13]["metadata"]
    assert float(dataset[14]["snr"]) == 67.0


def test_audio_comes_at_the_newest_snapshot_that_columns_and_latents_have(tmp_path):
    first = write_dataset(tmp_path, {"train": clips(10)}, latents=True)
    write_columns(tmp_path, "captions", CAPTIONS, {"train": clips(10)}, first)
    second = write_dataset(tmp_path, {"train": clips(15)})
    write_latents(tmp_path, {"train": clips(15)}, second)
    latents = [f"{tmp_path}/latents/crepe"]
    assert StreamingDataset(remote=tmp_path, latents=latents).size == 15
    assert StreamingDataset(remote=tmp_path, latents=latents, columns=["captions"]).size == 10
    with pytest.raises(NotFoundError, match=r"snapshot 2 has no columns in .*/captions has those of snapshot 1\."):
        StreamingDataset(remote=tmp_path, columns=["captions"], snapshot=2)


@pytest.mark.medium
def test_a_state_goes_on_with_the_columns_that_it_was_saved_with(tmp_path):
    audio = write_dataset(tmp_path, SAMPLES)
    write_columns(tmp_path, "captions", CAPTIONS, SAMPLES, audio)
    more = {"remote": tmp_path, "split": "train", "columns": ["captions"], "batch_size": 4, "shuffle": True}
    whole = [batch["metadata"] for batch in StreamingDataLoader(StreamingDataset(**more))]
    loader = StreamingDataLoader(StreamingDataset(**more))
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["streams"][0]["columns_snapshots"] == {"captions": 1}
    write_columns(tmp_path, "captions", {spec("caption", "string"): lambda _: "new"}, SAMPLES, audio)
    assert StreamingDataset(**more)[1]["metadata"]["caption"] == "new"
    resumed = StreamingDataLoader(StreamingDataset(**more))
    resumed.load_state_dict(state)
    assert [batch["metadata"] for batch in resumed] == whole[1:]
    (tmp_path / "columns/captions/snapshots/00000001.json").unlink()
    with pytest.raises(StateError, match=r"columns captions at 1 .* which is gone"):
        StreamingDataLoader(StreamingDataset(**more)).load_state_dict(state)
    plain = StreamingDataLoader(StreamingDataset(**more | {"columns": []}))
    plain.load_state_dict(state)  # the order does not depend on columns
    assert len(list(plain)) == len(whole) - 1


def first_file(folder, name="captions"):
    storage = LocalStorage(folder / "columns" / name)
    return storage, min(entry.path for entry in storage.list("train_0000_000000"))


def test_a_damaged_file_is_named_with_the_sample(tmp_path):
    audio = write_dataset(tmp_path, SAMPLES)
    write_columns(tmp_path, "captions", CAPTIONS, SAMPLES, audio)
    storage, name = first_file(tmp_path)
    blob = bytearray(storage.read(name))
    blob[-1] ^= 1
    storage.write(name, bytes(blob))
    dataset = StreamingDataset(remote=tmp_path, split="train", columns=["captions"])
    with pytest.raises(SampleError, match=rf"sample 'clip00000': .*captions/{name}.*damaged"):
        dataset[0]
    assert dataset[5]["metadata"]["caption"] == "Nr. 5 ä"
    skipping = StreamingDataset(remote=tmp_path, split="train", columns=["captions"], on_bad_sample="skip")
    assert sum(sample.get("is_padding", False) for sample in skipping) == 5
    storage.delete(name)
    with pytest.raises(SampleError, match=name):
        StreamingDataset(remote=tmp_path, split="train", columns=["captions"])[0]


def test_rows_of_other_samples_are_an_error_that_names_both_files(tmp_path):
    audio = write_dataset(tmp_path, SAMPLES)
    write_columns(tmp_path, "captions", CAPTIONS, SAMPLES, audio)
    storage, name = first_file(tmp_path)
    table = read_columns(storage, name)
    other = ColumnTable(table.columns, len(table), "0" * 64, "")
    made, _ = publish_columns(storage, ShardPlace("train", 0, 0), other)
    storage.write(name, storage.read(made))
    said = rf"000000-\w+\.tar: .*{name}: another file of columns has this name"
    with pytest.raises(SampleError, match=said) as caught:
        StreamingDataset(remote=tmp_path, split="train", columns=["captions"])[0]
    assert isinstance(caught.value.__cause__, FormatError)
