"""The smoke test reads everything back, and notices what a training job would stumble over."""

import subprocess

import numpy as np
import polars as pl
import pytest
import torch

from headrace import smoke
from headrace.config import LoaderConfig
from headrace.smoke import Budget, drawn_shards, read_expected, smoke_test, table_faults
from headrace.smoke_arrivals import Arrived, arrived_sample, is_sound
from headrace.smoke_streams import _started_by
from headrace.snapshots import read_snapshot, read_table
from tests.projects import Graph, Project

IN_PROCESS = LoaderConfig(num_workers=0, batch_size=4)


def built(tmp_path, **settings) -> Graph:
    project = Project(tmp_path)
    project.write_tones(7)
    project.write_yaml(**settings)
    graph = Graph(project)
    graph.build()
    return graph


def run(graph: Graph, loader: LoaderConfig = IN_PROCESS) -> smoke.SmokeResult:
    table = read_table(graph.audio, read_snapshot(graph.audio).snapshot)
    return smoke_test(graph.audio, table, loader)


def faulty(result: smoke.SmokeResult) -> set[str]:
    return {name for name, faults in result.faults.items() if faults}


def test_every_sample_arrives_and_every_verdict_is_good(graph):
    result = run(graph)
    assert faulty(result) == set()
    assert result.num_samples == result.num_streamed == 7
    assert result.table["samples"].sum() == result.table["streamed"].sum() == 7
    assert result.table["faults"].sum() == 0


def test_worker_processes_read_the_same(graph):
    result = run(graph, LoaderConfig(num_workers=2, shuffle_buffer=3, batch_size=2))
    assert faulty(result) == set()
    assert result.num_samples == 7


def test_recordings_of_mixed_channels_and_rates_are_read_sample_by_sample(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_tone("stereo", channels=2)
    project.write_yaml()
    graph = Graph(project)
    graph.build()
    result = run(graph)
    assert faulty(result) == set()
    assert result.num_samples == 4


def test_an_empty_split_is_no_fault(tmp_path, undrawn):
    result = run(built(tmp_path, splits={"train": 1.0, "test": 0.0}))
    assert faulty(result) == set()
    assert result.num_samples == 7


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return built(tmp_path_factory.mktemp("smoke"))


@pytest.fixture
def arrivals(graph, monkeypatch):
    """A data set, and what the loader is made to give of it."""
    expected = read_expected(graph.audio, read_table(graph.audio, read_snapshot(graph.audio).snapshot))
    loader = smoke._arrivals(smoke._Source(graph.audio.uri, None, None), expected, IN_PROCESS)
    samples = list(loader)
    monkeypatch.setattr(smoke, "_arrivals", lambda *_: iter(samples))
    return graph, samples


def test_a_sample_that_never_arrives_is_named_a_fault(arrivals):
    graph, samples = arrivals
    samples.pop()
    assert faulty(run(graph)) == {"every_key_once", "counts_match_sizes"}


def test_a_sample_that_arrives_twice_is_a_fault(arrivals):
    graph, samples = arrivals
    samples.append(samples[0])
    assert faulty(run(graph)) == {"every_key_once", "counts_match_sizes"}


def test_a_sample_that_no_index_has_is_a_fault(arrivals):
    graph, samples = arrivals
    samples.append(Arrived("stranger", 1, 1, 8000, is_sound=True))
    assert faulty(run(graph)) == {"every_key_once"}


def test_another_length_than_the_index_says_is_a_fault(arrivals):
    graph, samples = arrivals
    first = samples[0]
    samples[0] = Arrived(first.key, first.num_frames - 1, first.width, first.sample_rate_hz, is_sound=True)
    assert faulty(run(graph)) == {"shapes_and_lengths"}


def test_values_that_are_not_finite_are_a_fault(arrivals):
    graph, samples = arrivals
    first = samples[0]
    samples[0] = Arrived(first.key, first.num_frames, first.width, first.sample_rate_hz, is_sound=False)
    assert faulty(run(graph)) == {"finite_values"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.5])
def test_audio_is_sound_only_when_finite_and_in_range(value):
    audio = torch.zeros(1, 5)
    assert is_sound(audio, limit=1.0)
    audio[0, 3] = value
    assert not is_sound(audio, limit=1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_latents_are_sound_when_finite(dtype):
    latents = torch.full((4, 3), 7.0, dtype=dtype)
    assert is_sound(latents)
    latents[2, 1] = float("nan")
    assert not is_sound(latents)


def test_a_table_with_a_wrong_column_or_range_does_not_pass():
    counts = ("expected_samples", "samples", "streamed", "faults", "num_frames", "num_bytes")
    good = {"shard": ["a.tar"], **{name: [1] for name in counts}}
    assert table_faults(pl.DataFrame(good)) == []
    assert table_faults(pl.DataFrame({**good, "num_bytes": [0]}))
    assert table_faults(pl.DataFrame({**good, "shard": [3]}))
    assert table_faults(pl.DataFrame(good).drop("samples"))


def test_a_large_data_set_is_judged_by_shards_drawn_from_it(graph):
    table = read_table(graph.audio, read_snapshot(graph.audio).snapshot)
    result = smoke_test(graph.audio, table, IN_PROCESS, budget=Budget(num_samples=4))
    assert faulty(result) == set()
    assert not result.is_whole
    assert 0 < result.num_streamed == result.num_samples <= 4
    assert set(result.table["shard"]) < set(table.names())
    assert drawn_shards(table, Budget(num_samples=4)).names() == result.table["shard"].to_list()
    assert len(drawn_shards(table, Budget(num_samples=0))) == 1


def test_audio_that_differs_from_its_json_is_a_fault():
    stated = {"num_frames": 4, "sample_rate": 8000, "num_channels": 1}
    sample = {"__key__": "a", "audio": torch.zeros(1, 5), "sample_rate": 8000, "metadata": {"headrace": stated}}
    assert arrived_sample(sample).contradiction == "num_frames 5, its JSON says 4"
    assert arrived_sample({**sample, "audio": torch.zeros(1, 4)}).contradiction == ""


def test_latents_that_are_not_as_long_as_their_audio_are_a_fault():
    stated = {"num_frames": 8000, "sample_rate": 8000, "num_channels": 1, "frame_rate_hz": 50.0}
    sample = {"__key__": "a", "encoder_hidden": torch.zeros(51, 3), "encoder_length": 51}
    assert arrived_sample({**sample, "metadata": {"headrace": stated}}).contradiction == ""
    stated = {**stated, "num_frames": 4000}
    assert "makes 25.0" in arrived_sample({**sample, "metadata": {"headrace": stated}}).contradiction


def test_a_thread_that_ends_while_processes_are_counted_is_no_fault(tmp_path):
    assert _started_by(tmp_path / "gone") == []


def test_a_damaged_shard_is_a_fault_that_names_shard_and_key(tmp_path, undrawn):
    graph = built(tmp_path)
    shard = next((graph.project.output / "audio").glob("*.tar"))
    content = bytearray(shard.read_bytes())
    at = content.index(b"fLaC")
    content[at + 4 : at + 200] = bytes(196)
    shard.chmod(0o644)
    shard.write_bytes(bytes(content))
    result = run(graph)
    assert "every_key_once" in faulty(result)
    assert any(shard.name in fault for fault in result.faults["every_key_once"])


def test_a_process_that_is_left_behind_is_a_fault(graph, monkeypatch):
    monkeypatch.setattr("headrace.smoke_streams._PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("headrace.smoke.child_processes", set)
    with subprocess.Popen(["sleep", "30"]) as process:
        result = run(graph)
        process.kill()
    assert faulty(result) == {"leaves_nothing"}


def test_batches_that_differ_between_ranks_are_a_fault(graph, monkeypatch):
    monkeypatch.setattr(
        "headrace.smoke_streams.RankStreams.batch_faults", lambda self: ["the ranks got [2, 3] batches"]
    )
    assert faulty(run(graph)) == {"equal_batches"}
