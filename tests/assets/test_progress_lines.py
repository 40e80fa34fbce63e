"""Long runs say what they do, on what, and how far they are."""

import pytest

from headrace.encoding.plans import EncodingOptions
from headrace_dagster.assets.progress_lines import ProgressLines
from headrace_dagster.resources.encoders import EncoderLoader, EncodersResource
from headrace_dagster.resources.environment import cluster_of, counted_threads
from headrace_dagster.resources.ray_workers import RayWorkersResource
from headrace_dagster.resources.workers import WorkersResource
from tests.support.projects import Graph, Project

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]


@pytest.fixture
def said():
    return []


def test_a_line_comes_at_most_every_ten_seconds_and_says_how_far_and_how_fast(said):
    now = 100.0
    lines = ProgressLines(said.append, "mel of train-0000", "cuda:0", 34_000, clock=lambda: now)
    lines.begin("batches of 320 s, with 8 threads")
    for _ in range(25):
        now += 1.0
        lines.add(1000)
    assert said == [
        "mel of train-0000: 34,000 samples, on cuda:0, batches of 320 s, with 8 threads",
        "mel of train-0000: 10,000 of 34,000 samples (29%), 1,000 samples/s, on cuda:0",
        "mel of train-0000: 20,000 of 34,000 samples (59%), 1,000 samples/s, on cuda:0",
    ]


def test_a_total_that_is_not_known_at_the_beginning_is_no_obstacle(said):
    now = 0.0
    lines = ProgressLines(said.append, "scan of tones", "the CPU", 0, "files", clock=lambda: now)
    now = 20.0
    lines.reach(50, 200)
    lines.reach(51, 200)
    assert said == ["scan of tones: 50 of 200 files (25%), 2.5 files/s, on the CPU"]


@pytest.mark.medium
def test_the_log_of_each_run_says_what_it_does(tmp_path, undrawn, monkeypatch):
    monkeypatch.setattr("headrace_dagster.assets.progress_lines._EVERY_SECONDS", 0.0)
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 2}, latents=LATENTS)
    workers, encoders = WorkersResource(num_threads=2), EncodersResource(devices=["cpu"], batch_seconds=5)
    graph = Graph(project, resources={"headrace_workers": workers, "headrace_encoders": encoders})
    keys = graph.keys
    runs = [
        graph.scan(),
        graph.run(keys.audio_shards, "train-0000"),
        graph.run(keys.latent_shards("mel"), "train-0000"),
    ]
    assert all(run.success for run in runs)
    scan, audio, mel = ([entry.user_message for entry in graph.instance.all_logs(run.run_id)] for run in runs)
    assert "scan of tones: on the CPU, with 2 threads" in scan
    assert any(line.startswith("scan of tones: 3 of 3 files (100%), ") for line in scan)
    assert "audio of train-0000: 3 samples, on the CPU, as flac, with 2 threads" in audio
    assert any(line.startswith("audio of train-0000: 3 of 3 samples (100%), ") for line in audio)
    assert "mel of train-0000: 3 samples, on cpu, batches of 5 s, with 2 threads" in mel
    assert any(line.startswith("mel of train-0000: 3 of 3 samples (100%), ") for line in mel)


def test_defaults_are_said_in_words():
    assert EncodersResource().devices == ["auto"]
    assert EncodingOptions().batch_in_words == "a length that fits the device"
    assert counted_threads(WorkersResource(num_threads=1)) == "with 1 thread"
    assert counted_threads(RayWorkersResource(address="ray://host:1")) == "with the threads of its nodes"
    assert cluster_of(RayWorkersResource(address="ray://host:1")) == "the Ray cluster ray://host:1"


@pytest.mark.parametrize("devices", [[], ["auto"]])
def test_auto_means_the_devices_of_the_machine(devices, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert EncoderLoader(devices).devices_in_words() == "cuda:0, cuda:1"
    assert EncodersResource(devices=devices).devices_in_words() == "cuda:0, cuda:1"
    assert EncodersResource(devices=["cuda:1"]).devices_in_words() == "cuda:1"
