"""Units whose centroids a build fits once: made, kept when the data changes, and fitted again only when asked."""

import contextlib

import pytest

import build
from headrace import StreamingDataLoader, StreamingDataset
from headrace.cli import main as headrace
from headrace_dagster.assets.factory import build_assets, default_resources
from tests.support.instances import memory_instance
from tests.support.projects import Project

UNITS = {"kind": "kmeans", "encoder": {"kind": "log_mel", "num_mels": 8, "sample_rate_hz": 8000}, "num_codes": 5}


@pytest.mark.slow
def test_centroids_are_fitted_once_and_latents_follow_them(tmp_path, monkeypatch, capsys):
    instance = memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    project = Project(tmp_path)
    for number in range(5):
        project.write_noise(f"noise{number}", seed=number)
    project.write_yaml(
        splits={"train": 1.0},
        shards={"samples_per_shard": 3, "partitions": {"train": 1}},
        latents=[{"name": "units", "encoder": UNITS}],
        loader={"num_workers": 0, "shuffle_buffer": 0},
    )

    def built():
        assert build.main(["tones", "--datasets", str(project.datasets)]) == 0, capsys.readouterr().out
        return sorted(path.name for path in (project.output / "latents/units/centroids").iterdir())

    first = built()
    assert len(first) == 1
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(project.output), latents=["units"], batch_size=5))
    assert len(batch["codes"][batch["codes"] >= 0].unique()) == 5
    project.write_noise("another", seed=9)
    assert built() == first
    assert "units_centroids" not in capsys.readouterr().out.rpartition("another")[2]
    file = project.output / "latents/units/centroids" / first[0]
    content = file.read_bytes()
    assert headrace(["gc", str(project.output), "--keep", "1"]) == 0
    assert file.is_file()
    file.unlink()
    (second,) = built()  # fitted to the audio that is there now
    assert second != first[0]
    definitions = build_assets([project.dataset()], default_resources(tmp_path))
    job = definitions.resolve_implicit_global_asset_job_def()
    key = project.dataset().keys.centroids("units")
    for refit, count in ((False, 1), (True, 2)):
        ops = {"ops": {key.to_python_identifier(): {"config": {"refit": refit}}}}
        assert job.execute_in_process(instance=instance, asset_selection=[key], run_config=ops).success
        assert len(list(file.parent.iterdir())) == count
    assert content
    capsys.readouterr()
