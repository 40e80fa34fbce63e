"""A Kaldi directory in a Dagster project: the build command, and the sensor that sees its files change."""

import contextlib

import pytest

from headrace_dagster.assets.catalog import source_inputs
from headrace_dagster.resources.storage import StorageResource
from tests.support.instances import memory_instance
from tests.support.projects import Project
from tests.support.six_tones import run


@pytest.fixture
def project(tmp_path, undrawn, monkeypatch):
    instance = memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    made = Project(tmp_path)
    made.write_tones(4)
    data = tmp_path / "data"
    data.mkdir()
    paths = sorted(made.recordings.iterdir())
    (data / "wav.scp").write_text("".join(f"{path.stem} {path}\n" for path in paths))
    (data / "text").write_text("".join(f"{path.stem} say {path.stem}\n" for path in paths))
    made.write_yaml(source={"kind": "kaldi", "uri": str(data), "settle_seconds": 0}, group_by="text")
    return made


@pytest.mark.slow
def test_a_data_directory_is_built_and_a_changed_text_is_built_again(project, capsys):
    assert run(project) == 0
    assert sum(project.sizes().values()) == 4
    assert run(project) == 0
    assert "nothing changed" in capsys.readouterr().out
    before = source_inputs(project.config(), StorageResource())
    text = project.folder / "data/text"
    text.write_text(text.read_text().replace("say tone002", "sing tone002"))
    assert source_inputs(project.config(), StorageResource()) != before
    assert run(project) == 0
    assert "nothing changed" not in capsys.readouterr().out


@pytest.mark.medium
def test_a_data_directory_that_is_gone_is_an_error_that_names_it(project, capsys):
    (project.folder / "data/wav.scp").unlink()
    assert run(project) == 1
    shown = capsys.readouterr()
    assert "a folder with wav.scp" in shown.out + shown.err
