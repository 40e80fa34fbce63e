"""An encoder of named outputs in the whole graph: built, read by the smoke test, drawn in the report."""

import contextlib
import json

import dagster as dg
import pytest

import build
from headrace import StreamingDataLoader, StreamingDataset
from headrace.cli import main as headrace
from tests.support.instances import memory_instance
from tests.support.projects import Project
from tests.support.tiny_texts import save_text

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


CAPTIONS = ["a dog barks", "the cat", "a dog barks", "", "music and rain", None]


@pytest.mark.slow
def test_texts_pass_the_graph_and_a_changed_one_is_encoded_alone(tmp_path, monkeypatch, capsys):
    instance = memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    project, model = Project(tmp_path), save_text("bert", tmp_path / "bert")
    project.write_tones(6)

    def write(captions):
        table = tmp_path / "captions.jsonl"
        rows = [{"path": f"tone{number:03d}.wav", "caption": one} for number, one in enumerate(captions)]
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def write_tags(*tags):
        table = tmp_path / "tags.jsonl"
        table.write_text(
            "".join(json.dumps({"path": f"tone{n:03d}.wav", "tag": tag}) + "\n" for n, tag in enumerate(tags))
        )

    write(CAPTIONS)
    write_tags(["rain", "the wind"], ["rain"], ["a cat", "a dog", "rain"], ["the bird"], ["rain", "the wind"], ["no"])
    encoder = {"kind": "text", "model": str(model)}
    project.write_yaml(
        source={"uri": str(project.recordings), "metadata": str(tmp_path / "captions.jsonl"), "settle_seconds": 0},
        splits={"train": 1.0},
        shards={"samples_per_shard": 3, "partitions": {"train": 1}},
        latents=[
            {"name": "captions", "encoder": encoder, "column": "caption", "max_rejected": 0.5},
            {"name": "tokens", "encoder": {**encoder, "output": "hidden"}, "column": "caption", "max_rejected": 0.5},
            {"name": "tags", "encoder": encoder, "column": "tags.tag"},
        ],
        columns=[{"name": "tags", "table": str(tmp_path / "tags.jsonl")}],
        loader={"num_workers": 0, "shuffle_buffer": 0},
    )
    assert build.main(["tones", "--datasets", str(project.datasets)]) == 0, capsys.readouterr().out
    options = {"latents": ["captions", "tokens", "tags"], "batch_size": 6, "on_missing_latents": "skip"}
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(project.output), **options))
    assert {"audio", "embedding_captions", "embedding_tags_choice", "hidden", "hidden_length"} <= batch.keys()
    assert int(batch["is_padding"].sum()) == 1
    again = metadata_of(instance, "loader_smoke_test")
    assert {"latents_captions_encoded_again", "latents_tags_encoded_again"} <= again.keys()
    for command in (["verify"], ["inspect"]):
        assert headrace([*command, str(project.output)]) == 0
    out = str(tmp_path / "parquet")
    assert headrace(["export", str(project.output), out, "--to", "parquet", "--latents", "captions,tokens,tags"]) == 0
    capsys.readouterr()
    write(["a bird sings", *CAPTIONS[1:]])
    assert build.main(["tones", "--datasets", str(project.datasets)]) == 0
    assert "captions" in capsys.readouterr().out
    assert figures(instance, "captions") == (1, 2)
    write_tags(["rain", "music"], ["rain"], ["a cat", "a dog", "rain"], ["the bird"], ["rain", "the wind"], ["no"])
    assert build.main(["tones", "--datasets", str(project.datasets)]) == 0
    assert figures(instance, "tags") == (1, 2)  # the other shard stays as it is
    assert figures(instance, "captions") == (1, 2)  # not made again
    reasons = capsys.readouterr().out
    assert "tags_latent_shards: rows changed: train-0000" in reasons
    assert "captions_latent_shards:" not in reasons


def figures(instance, name):
    """Number of texts that the last run of a set of latents encoded, and of samples whose texts were known."""
    metadata = metadata_of(instance, f"{name}_latent_shards")
    return metadata["texts_encoded"], metadata["samples_kept"]


def metadata_of(instance, asset):
    made = instance.get_latest_materialization_event(dg.AssetKey(["tones", asset]))
    return {name: value.value for name, value in made.asset_materialization.metadata.items()}
