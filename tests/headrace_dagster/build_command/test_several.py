"""`build.py` with `runs.partitions_per_run`: fewer runs, the same output, and an outcome for each partition."""

import dagster as dg
import pytest

import headrace_dagster.assets.audio_shards as audio_assets
from headrace.errors import BuildError
from headrace_dagster.assets.tags import partitions_of_run
from tests.support.instances import memory_instance
from tests.support.six_tones import run

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]


@pytest.fixture
def several(project):
    """A data set that has not been built; its four partitions go into one run."""
    project.write_yaml(runs={"partitions_per_run": 4}, latents=LATENTS)
    return project


def made(instance, project) -> dict[str, list[tuple[str, ...]]]:
    """The partitions of each run of each partitioned asset, oldest run first."""
    layout, found = project.config().partitioning().partition_keys(), {}
    for one in reversed(list(instance.get_runs())):
        for key in one.asset_selection:
            if partitions := partitions_of_run(one, layout):
                found.setdefault(key.path[-1], []).append(partitions)
    return found


def broken(monkeypatch, *partitions):
    """Make the audio of partitions fail."""
    real = audio_assets.build_partition

    def build(name, *args, **settings):
        if name in partitions:
            raise BuildError(f"{name} cannot be built")
        return real(name, *args, **settings)

    monkeypatch.setattr(audio_assets, "build_partition", build)


@pytest.mark.slow
def test_all_partitions_are_one_run_and_the_files_are_the_same(several, instances, capsys):
    layout = tuple(several.config().partitioning().partition_keys())
    assert run(several) == 0
    assert made(instances[-1], several) == {
        name: [layout] for name in ("audio_shards", "metadata_columns", "mel_latent_shards")
    }
    assert capsys.readouterr().out.count("4 of 4") == 3
    files = several.files()
    assert run(several) == 0
    assert "nothing changed" in capsys.readouterr().out
    instances.append(memory_instance())
    assert run(several) == 0  # all is recorded again, and nothing is written
    assert made(instances[-1], several)["audio_shards"] == [layout]
    assert several.files() == files


@pytest.mark.slow
def test_the_files_are_those_of_a_run_for_each_partition(several, instances, tmp_path):
    assert run(several) == 0
    files = several.files()
    several.write_yaml(runs={"partitions_per_run": 1}, output={"uri": str(tmp_path / "other")})
    instances.append(memory_instance())
    assert run(several) == 0
    assert [len(partitions) for partitions in made(instances[-1], several)["audio_shards"]] == [1] * 4
    shards = {path: content for path, content in files.items() if path.startswith(("audio/", "latents/", "columns/"))}
    for path, content in shards.items():
        if not path.endswith(".json") or "manifests/" in path:
            assert (tmp_path / "other" / path).read_bytes() == content, path


@pytest.mark.slow
def test_a_partition_that_fails_is_named_and_the_next_build_builds_it_alone(several, instances, capsys, monkeypatch):
    layout = tuple(several.config().partitioning().partition_keys())
    bad = layout[1]
    with monkeypatch.context() as patch:
        broken(patch, bad)
        assert run(several) == 1
    shown = capsys.readouterr().out
    assert f"failed tones/audio_shards [{bad}]: {bad} cannot be built\n" in shown
    assert shown.count("failed") == 1
    assert "3 of 4" in shown
    assert run(several) == 0
    assert made(instances[-1], several)["audio_shards"] == [layout, (bad,)]
    assert sum(several.sizes().values()) == 6


@pytest.mark.medium
def test_a_step_that_fails_before_its_partitions_is_reported_once(several, capsys, monkeypatch):
    held = dg.Failure("held back", metadata={"checks": "of the catalog"})  # not metadata of partitions
    monkeypatch.setattr(audio_assets, "pass_catalog", lambda *_: (_ for _ in ()).throw(held))
    assert run(several) == 1
    assert capsys.readouterr().out.count("held back") == 1
