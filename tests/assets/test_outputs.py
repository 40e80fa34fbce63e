"""An encoder of named outputs in the whole graph: built, read by the smoke test, drawn in the report."""

import contextlib

import pytest

import build
from headrace import StreamingDataLoader, StreamingDataset
from headrace.cli import main as headrace
from tests.support.instances import memory_instance
from tests.support.projects import Project

QUANTIZER = "tests.support.outputs_encoder:Quantizer"


@pytest.mark.slow
def test_codes_vectors_and_frames_pass_the_graph_and_its_smoke_test(tmp_path, monkeypatch, capsys):
    instance = memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    project = Project(tmp_path)
    project.write_tones(6)
    project.write_yaml(
        splits={"train": 1.0},
        shards={"samples_per_shard": 3, "partitions": {"train": 1}},
        latents=[{"name": "units", "encoder": {"kind": "custom", "encoder": QUANTIZER}}],
        loader={"num_workers": 0, "shuffle_buffer": 0},
    )
    assert build.main(["tones", "--datasets", str(project.datasets)]) == 0
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(project.output), latents=["units"], batch_size=6))
    assert {"audio", "codes", "codes_length", "embedding", "levels"} <= batch.keys()
    assert headrace(["verify", str(project.output)]) == 0
    assert headrace(["inspect", str(project.output)]) == 0
    out = str(tmp_path / "parquet")
    assert headrace(["export", str(project.output), out, "--to", "parquet", "--latents", "units"]) == 0
    assert "units" in (project.output / "report.html").read_text()
    capsys.readouterr()
