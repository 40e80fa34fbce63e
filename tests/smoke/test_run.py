"""The smoke test reads the dataset and finds errors that a training job would meet."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import headrace.plain.loader
import headrace.streaming.loader
from headrace import StreamingDataLoader, StreamingDataset
from headrace.config.operation import LoaderConfig
from headrace.errors import StateError
from headrace.format.snapshots.shard_table import ShardTable
from headrace.smoke import run as smoke
from headrace.smoke.arrivals import ArrivedSample, arrived_sample
from headrace.smoke.choice import Coverage, ReadLimits, choose
from headrace.smoke.comparing import SeenSamples
from headrace.smoke.expected import read_expected
from headrace.smoke.run import SmokePart, smoke_test, table_faults
from headrace.smoke.verdicts import WARNINGS
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import commit, noise, write_partition

IN_PROCESS = LoaderConfig(num_workers=0, batch_size=4)


def written(folder: Path, *clips: np.ndarray) -> LocalStorage:
    """Audio shards of these clips, else of seven in two partitions; the split `test` is empty."""
    audio = LocalStorage(folder)
    named = {f"k{number}": clip for number, clip in enumerate(clips or [noise(400, seed) for seed in range(7)])}
    keys = list(named)
    partitions = {"train-0000": [keys[0:2], keys[2:3]], "train-0001": [keys[3:5], keys[5:]], "test-0000": []}
    manifests = []
    for partition, shards in partitions.items():
        clips_of_shards = [{key: named[key] for key in shard} for shard in shards if shard]
        manifests.append(write_partition(audio, clips_of_shards, partition=partition))
    commit(audio, *manifests)
    return audio


def run(audio: LocalStorage, loader: LoaderConfig = IN_PROCESS) -> smoke.SmokeResult:
    return smoke_test({"audio": SmokePart.newest(audio)}, loader)["audio"]


def faulty(result: smoke.SmokeResult) -> set[str]:
    return {name for name, faults in result.faults.items() if faults}


def test_every_sample_of_a_valid_dataset_is_read_and_every_check_passes(audio):
    result = run(audio)
    assert faulty(result) == set()
    assert result.num_samples == result.num_streamed == 7
    assert result.table["samples"].sum() == result.table["streamed"].sum() == 7
    assert result.table["faults"].sum() == 0
    assert result.num_new == result.num_shards == result.table.height
    assert 0 < result.stream_seconds_to_first <= result.stream_seconds
    assert result.seconds > 0


def test_a_recording_at_full_scale_is_a_warning_that_names_it(tmp_path):
    loud = np.where(noise(400, 1) > 0, 1.0, -1.0).astype(np.float32)
    result = run(written(tmp_path, *(noise(400, seed) for seed in range(6)), loud))
    assert faulty(result) == WARNINGS
    (warning,) = result.faults["full_scale"]
    assert " k6: 100% of its values are at full scale" in warning


@pytest.mark.medium
def test_worker_processes_read_the_same_samples(audio):
    result = run(audio, LoaderConfig(num_workers=2, shuffle_buffer=3, batch_size=2))
    assert faulty(result) == set()
    assert result.num_samples == 7


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 1])
def test_both_readers_use_the_loader_settings_of_the_yaml(audio, monkeypatch, num_workers):
    given = {}

    def record(module, name):
        make = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, **options: given.update({name: options}) or make(*args, **options)
        )

    record(headrace.streaming.loader, "StreamingDataLoader")
    record(headrace.plain.loader, "webdataset_loader")
    assert faulty(run(audio, LoaderConfig(num_workers=num_workers, prefetch_factor=5, shuffle_buffer=3))) == set()
    for options in given.values():
        assert options["num_workers"] == num_workers
        assert options["prefetch_factor"] == 5 or not num_workers
    assert given["webdataset_loader"]["shuffle_buffer"] == 3
    assert given["webdataset_loader"]["persistent_workers"] is False  # none may be left when the test ends
    assert len(given) == 2


def test_recordings_with_mixed_channels_are_read_sample_by_sample(tmp_path):
    result = run(mixed(tmp_path))
    assert faulty(result) == set()
    assert result.num_samples == 6


def mixed(folder: Path) -> LocalStorage:
    """Six clips, of which every other one is stereo."""
    return written(folder, *(np.stack([noise(400, seed)] * (1 + seed % 2), axis=1) for seed in range(6)))


@pytest.fixture(scope="module")
def audio(tmp_path_factory):
    return written(tmp_path_factory.mktemp("smoke"))


@pytest.fixture
def arrivals(audio, monkeypatch):
    """A dataset, and samples that a test can replace in the loader's results."""
    expected = read_expected(audio, SmokePart.newest(audio).table)
    loader = smoke._arrivals(smoke._ShardSelection(audio.uri, None, None), expected, IN_PROCESS)
    samples = list(loader)
    monkeypatch.setattr(smoke, "_arrivals", lambda *_: iter(samples))
    return audio, samples


def test_a_missing_sample_is_an_error_that_names_it(arrivals):
    audio, samples = arrivals
    samples.pop()
    assert faulty(run(audio)) == {"every_key_once", "counts_match_sizes"}


def test_a_sample_that_is_read_twice_is_an_error(arrivals):
    audio, samples = arrivals
    samples.append(samples[0])
    assert faulty(run(audio)) == {"every_key_once", "counts_match_sizes"}


def test_a_sample_that_is_in_no_index_is_an_error(arrivals):
    audio, samples = arrivals
    samples.append(ArrivedSample("stranger", 1, 1, 8000, is_finite=True))
    assert faulty(run(audio)) == {"every_key_once"}


def test_a_length_that_differs_from_the_index_is_an_error(arrivals):
    audio, samples = arrivals
    first = samples[0]
    samples[0] = replace(first, num_frames=first.num_frames - 1)
    assert faulty(run(audio)) == {"shapes_and_lengths"}


def test_values_that_are_not_finite_are_an_error(arrivals):
    audio, samples = arrivals
    first = samples[0]
    samples[0] = replace(first, is_finite=False)
    assert faulty(run(audio)) == {"finite_values"}


def test_values_that_differ_between_the_readers_are_an_error(arrivals):
    audio, samples = arrivals
    first = samples[0]
    samples[0] = replace(first, content=first.content ^ 1)
    result = run(audio)
    assert faulty(result) == {"same_in_both_readers"}
    assert f"and {first.content ^ 1:08x} when read by the plain pipeline" in result.faults["same_in_both_readers"][0]


@pytest.mark.medium
def test_a_table_with_an_invalid_column_or_range_does_not_pass():
    counts = ("expected_samples", "rejected", "samples", "streamed", "faults", "num_frames", "num_bytes")
    good = {"shard": ["a.tar"], **{name: [1] for name in counts}}
    assert table_faults(pl.DataFrame(good)) == []
    assert table_faults(pl.DataFrame({**good, "num_bytes": [0]}))
    assert table_faults(pl.DataFrame({**good, "shard": [3]}))
    assert table_faults(pl.DataFrame({**good, "shard": ["a.tar.gz"]}))
    for name in ("rejected", "samples", "streamed", "faults", "num_frames"):  # 0 is valid, a negative number is not
        assert table_faults(pl.DataFrame({**good, name: [0]})) == []
        assert table_faults(pl.DataFrame({**good, name: [-1]}))
    assert table_faults(pl.DataFrame({**good, "expected_samples": [0]}))
    assert table_faults(pl.DataFrame({**good, "more": [1]}))
    assert table_faults(pl.DataFrame({name: values * 2 for name, values in good.items()}))
    assert table_faults(pl.DataFrame(good).drop("samples"))


def test_a_large_dataset_is_tested_with_a_random_choice_of_shards(audio):
    part = SmokePart.newest(audio)
    result = smoke_test({"audio": part}, IN_PROCESS, limits=ReadLimits(num_samples=4))["audio"]
    assert faulty(result) == set()
    assert not result.is_whole
    assert 0 < result.num_streamed == result.num_samples <= 4
    assert set(result.table["shard"]) < set(part.table.names())
    assert chosen(part.table, ReadLimits(num_samples=4)) == result.table["shard"].to_list()
    assert len(chosen(part.table, ReadLimits(num_samples=0))) == 1


@pytest.mark.parametrize(("num_samples", "num_opened"), [(4, 1), (100, 0)])
def test_a_snapshot_of_which_a_part_is_read_is_opened_whole_as_well(audio, monkeypatch, num_samples, num_opened):
    opened = []
    monkeypatch.setattr(smoke, "num_samples_opened", lambda *where: opened.append(where) or 99)
    part = SmokePart.newest(audio)
    result = smoke_test({"audio": part}, IN_PROCESS, limits=ReadLimits(num_samples=num_samples))["audio"]
    assert opened == [(audio.uri, part.numbered.number)] * num_opened
    fault = "StreamingDataset opens a snapshot with 99 samples, but its shards have 7"
    assert result.faults["counts_match_sizes"] == [fault] * num_opened


@pytest.mark.medium
@pytest.mark.parametrize("num_read", [4, 7])
def test_a_file_that_the_test_creates_is_an_error_unless_the_folder_is_too_large_to_list(
    tmp_path, monkeypatch, num_read
):
    audio = written(tmp_path)
    comparer = smoke.SampleComparer.read

    def read(*arguments):
        audio.write("new.bin", b"")
        return comparer(*arguments)

    monkeypatch.setattr(smoke.SampleComparer, "read", read)
    part = {"audio": SmokePart.newest(audio)}
    result = smoke_test(part, IN_PROCESS, limits=ReadLimits(num_samples=num_read))["audio"]
    created = ["new.bin: this file was created by the test"]
    assert result.faults["leaves_nothing"] == (created if num_read == 7 else [])


@pytest.mark.medium
def test_an_earlier_snapshot_is_read_as_it_was(tmp_path):
    audio = written(tmp_path)
    earlier = SmokePart.newest(audio)
    commit(audio, write_partition(audio, [{"other": noise(400, 9)}], partition="train-0000"))
    (audio.root / "sizes.json").write_text(json.dumps(dict(zip(earlier.table.names(), (2, 1, 2, 2), strict=True))))
    result = smoke_test({"audio": earlier}, IN_PROCESS)["audio"]
    assert faulty(result) == set()
    assert result.num_samples == result.num_streamed == 7


@pytest.mark.medium
def test_the_shards_of_the_snapshot_that_passed_before_are_not_new(tmp_path):
    audio = written(tmp_path)
    part = SmokePart.newest(audio)
    number, fingerprint = part.numbered.number, part.numbered.snapshot.fingerprint
    for snapshots, num_new in [
        ({}, 4),
        ({"audio": (number, fingerprint)}, 0),
        ({"audio": (number, "another snapshot of this number")}, 4),
        ({"audio": (number + 1, fingerprint)}, 4),
    ]:
        result = smoke_test({"audio": part}, IN_PROCESS, Coverage(snapshots=snapshots))["audio"]
        assert (faulty(result), result.num_new) == (set(), num_new)


def test_faults_of_both_readers_are_counted_by_shard(audio):
    part = SmokePart.newest(audio)
    expected = read_expected(audio, part.table)
    plain, streamed = SeenSamples.none_of(expected), SeenSamples.none_of(expected)
    plain.wrong[:] = 1
    streamed.wrong[expected.shard == 2] = 3
    assert smoke.shard_rows(part.table, expected, plain, streamed)["faults"].to_list() == [2, 1, 8, 2]


def test_audio_is_joined_in_batches_and_worker_processes_if_all_of_it_is_read_and_singly_if_it_is_mixed(
    tmp_path, monkeypatch
):
    joined = []

    class Joined:
        def __init__(self, *_, batch_size, num_workers):
            joined.append((batch_size, num_workers))

        def faults(self, spans, found):
            return sum(stop - start for start, stop in spans)

    monkeypatch.setattr(smoke, "JoinedReading", Joined)
    parts = [SmokePart.newest(folder) for folder in (written(tmp_path / "same"), mixed(tmp_path / "mixed"))]
    some = choose({"audio": parts[0].table}, {}, limits=ReadLimits(num_samples=2)).tables["audio"]
    none = ShardTable.from_entries([])
    for part, chosen in [(parts[0], parts[0].table), (parts[0], some), (parts[0], none), (parts[1], parts[1].table)]:
        results = {"audio": smoke.SmokeResult(pl.DataFrame())}
        reading = smoke._Reading(part, chosen, ReadLimits())
        smoke._join({"audio": reading}, results, LoaderConfig(num_workers=2, batch_size=4))
        assert results["audio"].num_joined == chosen.num_samples.sum()
    assert joined == [(4, 2), (1, 0), (1, 0), (1, 2)]


def test_a_part_without_shards_has_read_nothing():
    result = smoke.SmokeResult(pl.DataFrame())
    counts = (result.num_samples, result.num_streamed, result.num_joined, result.num_shards, result.num_new)
    assert counts == (0, 0, 0, 0, 0)
    assert (result.seconds, result.stream_seconds, result.stream_seconds_to_first) == (0, 0, 0)
    assert result.is_whole


def chosen(table: ShardTable, budget: ReadLimits) -> list[str]:
    return choose({"audio": table}, {}, limits=budget).tables["audio"].names()


def test_audio_that_differs_from_its_json_is_an_error():
    stated = {"num_frames": 4, "sample_rate": 8000, "num_channels": 1}
    sample = {"__key__": "a", "audio": torch.zeros(1, 5), "sample_rate": 8000, "metadata": {"headrace": stated}}
    assert arrived_sample(sample).contradiction == "num_frames is 5, the sample's JSON says 4"
    assert arrived_sample({**sample, "audio": torch.zeros(1, 4)}).contradiction == ""


def test_latents_of_another_length_than_their_audio_are_an_error():
    stated = {"num_frames": 8000, "sample_rate": 8000, "num_channels": 1, "frame_rate_hz": 50.0}
    sample = {"__key__": "a", "encoder_hidden": torch.zeros(51, 3), "encoder_length": 51}
    assert arrived_sample({**sample, "metadata": {"headrace": stated}}).contradiction == ""
    stated = {**stated, "num_frames": 4000}
    assert "expected 25.0" in arrived_sample({**sample, "metadata": {"headrace": stated}}).contradiction


def test_the_error_about_a_damaged_shard_names_shard_and_key(tmp_path):
    audio = written(tmp_path)
    shard = next(audio.root.glob("*.tar"))
    content = bytearray(shard.read_bytes())
    at = content.index(b"fLaC")
    content[at + 4 : at + 200] = bytes(196)
    shard.chmod(0o644)
    shard.write_bytes(bytes(content))
    result = run(audio)
    assert "every_key_once" in faulty(result)
    assert any(shard.name in fault for fault in result.faults["every_key_once"])


def test_a_leftover_process_is_an_error(audio, monkeypatch):
    monkeypatch.setattr("headrace.smoke.streams._PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("headrace.smoke.run.child_processes", set)
    with subprocess.Popen(["sleep", "30"]) as process:
        result = run(audio)
        process.kill()
    assert faulty(result) == {"leaves_nothing"}


def write_sizes(audio: LocalStorage, sizes: dict[str, int]) -> None:
    audio.write("sizes.json", json.dumps(sizes).encode())


@pytest.fixture
def sizes(audio):
    """The content of sizes.json, restored afterwards."""
    found = json.loads(audio.read("sizes.json"))
    yield dict(found)
    write_sizes(audio, found)


def test_a_sizes_json_with_one_sample_too_many_is_an_error(audio, sizes):
    shard = next(iter(sizes))
    write_sizes(audio, sizes | {shard: sizes[shard] + 1})
    result = run(audio)
    assert faulty(result) == {"counts_match_sizes"}
    declared, counted = sizes[shard] + 1, sizes[shard]
    assert result.faults["counts_match_sizes"] == [
        f"sizes.json: {shard} is {declared}, the snapshot says {counted}",
        f"{shard}: {counted} samples arrived, {counted} by streaming; sizes.json says {declared}",
    ]


@pytest.mark.parametrize("change", ["lost", "stranger", "gone", "no JSON"])
def test_a_sizes_json_with_other_shards_is_an_error(audio, sizes, change):
    path = audio.root / "sizes.json"
    if change == "lost":
        write_sizes(audio, dict(list(sizes.items())[1:]))
    elif change == "stranger":
        write_sizes(audio, sizes | {"train_0000_000099-1a2b3c4d5e6f.tar": 2})
    elif change == "gone":
        path.unlink()
    else:
        path.write_text("{")
    assert faulty(run(audio)) == {"counts_match_sizes"}


def test_sizes_of_shards_that_are_not_read_are_checked_too(audio, sizes):
    unread = set(sizes) - set(chosen(SmokePart.newest(audio).table, ReadLimits(num_samples=2)))
    write_sizes(audio, sizes | dict.fromkeys(unread, 1000))
    part = {"audio": SmokePart.newest(audio)}
    result = smoke_test(part, IN_PROCESS, limits=ReadLimits(num_samples=2))["audio"]
    assert faulty(result) == {"counts_match_sizes"}


@pytest.mark.medium
def test_resuming_at_another_position_is_an_error(audio, monkeypatch):
    """One batch is lost or repeated."""
    load = StreamingDataset.load_state_dict
    for shift in (-2, 2):
        monkeypatch.setattr(
            StreamingDataset,
            "load_state_dict",
            lambda self, state: load(self, state | {"sample_in_epoch": state["sample_in_epoch"] + shift}),  # noqa: B023
        )
        result = run(audio, LoaderConfig(num_workers=0, batch_size=1))
        assert faulty(result) == {"resumes_exactly"}
        assert "were expected; the first difference is in batch 0" in result.faults["resumes_exactly"][0]


def test_a_state_that_cannot_be_loaded_is_an_error(audio, monkeypatch):
    def refuse(self, state):
        raise StateError("not this one")

    monkeypatch.setattr(StreamingDataset, "load_state_dict", refuse)
    assert faulty(run(audio)) == {"resumes_exactly"}


class OtherBatches(StreamingDataLoader):
    """A loader whose second rank has other batches than the first."""

    change = staticmethod(lambda batches: batches)

    def __iter__(self):
        batches = super().__iter__()
        yield from batches if self.dataset.world.rank == 0 else self.change(list(batches))


@pytest.fixture
def other_batches(monkeypatch):
    monkeypatch.setattr("headrace.streaming.loader.StreamingDataLoader", OtherBatches)
    return monkeypatch


def test_ranks_with_unequal_numbers_of_batches_are_an_error(audio, other_batches):
    """The second rank has one more batch, of padding."""
    padding = {"keys": ["", ""], "is_padding": torch.tensor([True, True])}
    other_batches.setattr(OtherBatches, "change", staticmethod(lambda batches: [*batches, padding]))
    result = run(audio, LoaderConfig(num_workers=0, batch_size=2))
    assert faulty(result) == {"equal_batches"}
    assert result.faults["equal_batches"] == ["the ranks got different numbers of batches: [2, 3]"]


def test_batches_of_unequal_sizes_are_an_error(audio, other_batches):
    """The last row of the second rank, a padding row, is missing."""

    def shorter(batches):
        last = batches[-1]
        assert last["is_padding"].tolist() == [False, True]
        last["keys"] = last["keys"][:-1]
        return batches

    other_batches.setattr(OtherBatches, "change", staticmethod(shorter))
    result = run(audio, LoaderConfig(num_workers=0, batch_size=2))
    assert faulty(result) == {"equal_batches"}
    assert result.faults["equal_batches"] == ["some batches have [1] samples instead of 2"]
