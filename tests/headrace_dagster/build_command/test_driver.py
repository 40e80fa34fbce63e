"""A failure in a build stops the assets that are made from it, and no others."""

import shutil

import dagster as dg
import pytest

from headrace.assemble import latents_together
from headrace.errors import BuildError
from headrace_dagster.assets import latent_shards
from tests.support.six_tones import run

pytestmark = pytest.mark.medium

LATENTS = [{"name": name, "encoder": {"kind": "log_mel"}} for name in ("first", "second", "third")]


@pytest.fixture
def failing(monkeypatch):
    """Names of sets of latents that fail."""
    names = set()
    build_partition = latents_together.build_latent_partition

    def build_or_fail(partition, settings, encoders, audio, storage, **options):
        if storage.uri.rpartition("/")[2] in names:
            raise BuildError("the encoder is broken")
        return build_partition(partition, settings, encoders, audio, storage, **options)

    for module in (latents_together, latent_shards):  # with others, and alone
        monkeypatch.setattr(module, "build_latent_partition", build_or_fail)
    return names


def _smoke_tests(instances):
    """Names of the sets that each smoke test left out; None if it left out none."""
    records = instances[-1].fetch_materializations(dg.AssetKey(["tones", "loader_smoke_test"]), limit=9).records
    metadata = [record.asset_materialization.metadata for record in reversed(records)]
    return [found["not_tested"].value if "not_tested" in found else None for found in metadata]


def _sets_of_runs(instances, project):
    """The sets of latents of each run that makes some, oldest run first."""
    names = {project.keys.latent_shards(latents["name"]): latents["name"] for latents in LATENTS}
    runs = [{names[key] for key in one.asset_selection if key in names} for one in instances[-1].get_runs()]
    return [sets for sets in reversed(runs) if sets]


def test_latents_that_fail_stop_neither_other_sets_nor_views_nor_the_report(project, failing, capsys, instances):
    failing.add("second")
    project.write_yaml(latents=LATENTS, views={"long": {"where": "duration_seconds > 0"}})
    assert run(project) == 1
    assert "failed tones/second_latent_shards [train-0000]: the encoder is broken" in capsys.readouterr().out
    assert _sets_of_runs(instances, project)[-1] == {"first", "second", "third"}  # they share their audio
    output = project.output
    for folder in ("audio", "latents/first", "latents/third", "views/long"):
        assert list((output / folder / "snapshots").glob("*.json")), folder
    assert not (output / "latents/second/snapshots").exists()
    page = (output / "report.html").read_text()
    assert "latents/first" in page
    assert "latents/second" not in page
    assert _smoke_tests(instances) == ["latents second: not up to date"]
    assert run(project) == 1  # what is up to date is not made again
    assert _smoke_tests(instances) == ["latents second: not up to date"]
    assert _sets_of_runs(instances, project)[-1] == {"second"}
    failing.clear()
    assert run(project) == 0
    assert _smoke_tests(instances) == ["latents second: not up to date", None]
    assert "latents/second" in (output / "report.html").read_text()


@pytest.mark.parametrize("is_inner", [False, True])
def test_an_encoder_that_cannot_be_loaded_stops_its_set_alone(project, capsys, instances, is_inner):
    missing = {"kind": "transformers", "model": str(project.folder / "missing")}
    units = {"kind": "kmeans", "encoder": missing, "num_codes": 2}
    project.write_yaml(latents=[LATENTS[0], {"name": "second", "encoder": units if is_inner else missing}])
    assert run(project) == 1
    assert "failed tones/second_latent_shards" in capsys.readouterr().out
    assert list((project.output / "latents/first/snapshots").glob("*.json"))
    assert _smoke_tests(instances) == ["latents second: not up to date"]
    assert (project.output / "report.html").exists()


def test_a_source_that_is_gone_stops_only_what_needs_a_recording(project, capsys):
    assert run(project) == 0
    shutil.move(project.recordings, project.folder / "away")
    shards = {"samples_per_shard": 3, "partitions": {"train": 3, "test": 1}}
    project.write_yaml(latents=LATENTS[:1], views={"long": {"where": "duration_seconds > 0"}}, shards=shards)
    assert run(project) == 1
    shown = capsys.readouterr().out
    assert "failed tones/catalog: source.uri" in shown
    for folder in ("latents/first", "views/long"):
        assert list((project.output / folder / "snapshots").glob("*.json")), folder
    shutil.move(project.folder / "away", project.recordings)
    assert run(project) == 0


def peak(audio, sample_rate_hz):
    return {"peak": float(abs(audio).max())}


def broken(audio, sample_rate_hz):
    raise RuntimeError("no such sound")


for feature in (peak, broken):
    feature.columns, feature.fingerprint = {"peak": "float"}, "1"


def test_a_feature_that_fails_stops_only_itself(project, capsys):
    features = [{"name": one, "kind": "custom", "feature": f"{__name__}:{one}"} for one in ("broken", "peak")]
    features.insert(0, {"name": "lacking", "kind": "quality", "file": "no_such_package:model.onnx"})
    project.write_yaml(latents=LATENTS[:1], features=features, views={"loud": {"where": "peak.peak > 0"}})
    assert run(project) == 1
    said = capsys.readouterr().out
    assert said.count("failed tones/broken_columns [train-0000]") == 1
    assert said.count("failed tones/lacking_columns: the Python package no_such_package is not installed") == 1
    assert said.count("no such sound") == said.count("failed tones/broken_columns")
    for made in ("audio", "latents/first", "columns/peak", "views/loud"):
        assert (project.output / made / "snapshots").is_dir(), made
    assert not (project.output / "columns/broken/snapshots").is_dir()
    project.write_yaml(latents=LATENTS[:1], features=features[2:], views={"loud": {"where": "peak.peak > 0"}})
    assert run(project) == 0


UNITS = {"kind": "kmeans", "encoder": {"kind": "log_mel"}, "num_codes": 2}
NEEDED = {  # assets that are made before → a selected asset → what it needs beside them
    "catalog": {"loud_columns": "audio_shards", "mel_latent_shards": "audio_shards, sizes_index"},
    "audio_shards": {
        "mel_latent_shards": "sizes_index",
        "units_centroids": "sizes_index",
        "loud_columns_index": "sizes_index",
        "dataset_report": "sizes_index",
    },
    "sizes_index": {
        "units_latent_shards": "units_centroids",
        "loader_smoke_test": "mel_sizes_index, units_sizes_index",
    },
}


def test_a_selected_asset_that_lacks_another_one_names_it(project, capsys):
    latents = [LATENTS[0] | {"name": "mel"}, {"name": "units", "encoder": UNITS}]
    project.write_yaml(latents=latents, features=[{"name": "loud", "kind": "levels"}])
    for made, selected in NEEDED.items():
        assert run(project, "--select", made) == 0
        assert run(project, "--select", made) == 0  # nothing is lacking of what was made
        for asset, needed in selected.items():
            capsys.readouterr()
            assert run(project, "--select", asset) == 1
            said = f"failed tones/{asset}: not made, because it needs {needed}; select it, too"
            assert said in capsys.readouterr().out.replace("\n", " ")
    assert run(project, "--select", "loud_columns,mel_latent_shards,dataset_report") == 0
