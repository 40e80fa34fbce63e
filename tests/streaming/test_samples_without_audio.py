"""Tars in which some samples have no audio: every world, batch size and number of workers gives the same answer."""

import itertools
import json

import pytest

from headrace import StreamingDataLoader, StreamingDataset, World
from headrace.errors import SampleError
from tests.support.streaming.corpus import clips
from tests.support.tars import write_tar

PLACES = {
    "first": ["-aaa", "aaaa"],
    "last": ["aaaa", "aaa-"],
    "each batch": ["a-a-", "-a-a"],
    "a pair": ["a--a", "aaaa"],
    "a whole tar": ["aaaa", "----"],
    "the first tar": ["----", "aaaa"],
}
WORLDS = [1, 2, 3, 8]


def write(folder, tars, *, fields=("flac",)):
    """Tars of samples with audio (`a`) or without (`-`); returns the keys of both kinds."""
    keys = {"a": set(), "-": set()}
    named = {field.partition(".")[0]: {} for field in fields if "." in field}
    facts = json.dumps({"headrace": {"fields": named}}).encode()
    for number, tar in enumerate(tars):
        members = {}
        for place, (kind, clip) in enumerate(zip(tar, clips(4, first=4 * number), strict=True)):
            key = f"s{number}{place}"
            keys[kind].add(key)
            members[f"{key}.json"] = facts
            members |= {f"{key}.{field}": clip.flac() for field in fields if kind == "a"}
        write_tar(folder / f"{number}.tar", list(members.items()))
    return keys["a"], keys["-"]


def read(folder, world, *, workers=0, **arguments):
    """The keys that all ranks deliver, and their errors."""
    keys, errors = set(), set()
    for rank in range(world):
        made = {"batch_size": 2, "local": str(folder / "cache"), "world": World(rank, world)} | arguments
        dataset = StreamingDataset(remote=str(folder), **made)
        batches = iter(StreamingDataLoader(dataset, num_workers=workers))
        try:
            keys |= set(itertools.chain.from_iterable(batch["keys"] for batch in batches)) - {""}
        except SampleError as error:
            errors.add(str(error))
    return keys, errors


def check_named(errors, lacking):
    assert errors
    for error in errors:
        assert any(f"sample '{key}': it has no audio, and others have" in error for key in lacking)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_every_world_names_a_sample_without_audio(tmp_path, place, batch_size):
    _, lacking = write(tmp_path, PLACES[place])
    for world in WORLDS:
        check_named(read(tmp_path, world, batch_size=batch_size)[1], lacking)


@pytest.mark.parametrize("place", PLACES)
def test_every_world_skips_samples_without_audio(tmp_path, place):
    having, _ = write(tmp_path, PLACES[place])
    for world in WORLDS:
        assert read(tmp_path, world, on_bad_sample="skip", shuffle=world > 1) == (having, set())


def test_every_world_leaves_out_samples_without_audio_that_are_excluded(tmp_path):
    having, lacking = write(tmp_path, PLACES["the first tar"])
    for world in WORLDS:
        assert read(tmp_path, world, exclude=sorted(lacking)) == (having, set())


def test_every_world_reads_the_other_fields_of_samples_without_audio(tmp_path):
    having, lacking = write(tmp_path, PLACES["each batch"])
    for world in WORLDS:
        assert read(tmp_path, world, fields=["metadata"]) == (having | lacking, set())
        check_named(read(tmp_path, world, fields=["audio"])[1], lacking)


def test_every_world_names_a_sample_without_any_of_its_named_fields(tmp_path):
    _, lacking = write(tmp_path, PLACES["each batch"], fields=("mix.flac", "voice.flac"))
    for world in WORLDS:
        check_named(read(tmp_path, world, batch_size=1)[1], lacking)
        check_named(read(tmp_path, world, batch_size=1, fields=["voice"])[1], lacking)


def test_a_transform_gets_samples_without_audio_as_they_are(tmp_path):
    having, lacking = write(tmp_path, PLACES["each batch"])

    def with_length(sample):
        return {"__key__": sample["__key__"], "frames": sample["audio"].shape[1] if "audio" in sample else 0}

    for world in WORLDS:
        assert read(tmp_path, world, transform=with_length) == (having | lacking, set())


@pytest.mark.parametrize("place", PLACES)
def test_a_single_sample_without_audio_is_named(tmp_path, place):
    having, lacking = write(tmp_path, PLACES[place])
    dataset, found = StreamingDataset(remote=str(tmp_path), local=str(tmp_path / "cache"), batch_size=1), set()
    for number in range(len(having | lacking)):
        try:
            found.add(dataset.get_item(number)["__key__"])
        except SampleError as error:
            check_named([str(error)], lacking)
    assert found == having


@pytest.mark.medium
def test_workers_name_a_sample_without_audio(tmp_path):
    _, lacking = write(tmp_path, PLACES["each batch"])
    for world in (1, 3):
        check_named(read(tmp_path, world, workers=2)[1], lacking)
