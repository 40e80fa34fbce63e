"""The smoke test reads everything back, and notices what a training job would stumble over."""

import numpy as np
import polars as pl
import pytest
import torch

from headrace import smoke
from headrace.config import LoaderConfig
from headrace.smoke import Arrived, read_expected, smoke_test, table_faults
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
    assert result.num_samples == 7
    assert result.table["samples"].sum() == 7


def test_worker_processes_read_the_same(graph):
    result = run(graph, LoaderConfig(num_workers=2, shuffle_buffer=3, batch_size=2))
    assert faulty(result) == set()
    assert result.num_samples == 7


def test_recordings_of_mixed_channels_and_rates_are_read_sample_by_sample(tmp_path):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_tone("stereo", channels=2)
    project.write_yaml()
    graph = Graph(project)
    graph.build()
    result = run(graph)
    assert faulty(result) == set()
    assert result.num_samples == 4


def test_an_empty_split_is_no_fault(tmp_path):
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
    loader = smoke._arrivals(graph.audio, expected, IN_PROCESS)
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
    assert smoke._is_sound(audio, limit=1.0)
    audio[0, 3] = value
    assert not smoke._is_sound(audio, limit=1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_latents_are_sound_when_finite(dtype):
    latents = torch.full((4, 3), 7.0, dtype=dtype)
    assert smoke._is_sound(latents)
    latents[2, 1] = float("nan")
    assert not smoke._is_sound(latents)


def test_a_table_with_a_wrong_column_or_range_does_not_pass():
    good = {"shard": ["a.tar"], "expected_samples": [1], "samples": [1], "num_frames": [1], "num_bytes": [1]}
    assert table_faults(pl.DataFrame(good)) == []
    assert table_faults(pl.DataFrame({**good, "num_bytes": [0]}))
    assert table_faults(pl.DataFrame({**good, "shard": [3]}))
    assert table_faults(pl.DataFrame(good).drop("samples"))
