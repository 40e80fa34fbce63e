"""`headrace build` and `headrace ui` in this process."""

import json
import os
import sys

import numpy as np
import pytest

from headrace_dagster.build_command import commands

pytestmark = pytest.mark.medium


def build(project, *options):
    return commands.build([str(project.datasets / "tones.yaml"), *options])


def test_a_file_is_built_as_by_build_py(project, capsys):
    assert build(project) == 0
    assert sum(project.sizes().values()) == 6
    assert build(project) == 0
    assert "tones: nothing changed" in capsys.readouterr().out


def test_json_is_one_object_on_standard_output(project, capsys):
    assert build(project, "--json", "--table") == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["name"], found["is_changed"], found["faults"]) == ("tones", True, [])
    assert "audio_shards" in {step["name"] for step in found["changes"]["steps"]}
    assert len(found["changes"]["catalog"]["added"]) == 6
    assert found["snapshots"]["audio"]["uri"] == str(project.output / "audio")
    assert "6 added" in shown.err
    assert build(project, "--json") == 0
    assert not json.loads(capsys.readouterr().out)["is_changed"]


def test_relative_places_are_below_the_root(project, tmp_path):
    project.write_yaml(source={"uri": "recordings", "settle_seconds": 0}, output={"uri": "elsewhere"})
    assert build(project, "--root", str(tmp_path), "--select", "catalog") == 0
    assert (tmp_path / "elsewhere/catalog").is_dir()


def test_a_failed_check_is_1_and_a_wrong_file_is_2(project, capsys):
    for path in project.recordings.iterdir():
        path.unlink()
    assert build(project, "--json") == 1
    assert json.loads(capsys.readouterr().out)["faults"]
    (project.datasets / "tones.yaml").write_text("nonsense: 1\n")
    assert build(project) == 2
    assert build(project, "--root", "gone") == 2
    assert "--root gone: no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        commands.build(["--nonsense"])
    assert ended.value.code == 2


def test_ui_starts_dagster_on_loopback_with_a_home_of_its_own(project, monkeypatch):
    started = []
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("HEADRACE_UI_FILE", "")  # both are put back after the test
    monkeypatch.setenv("HEADRACE_UI_ROOT", "")
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments))
    commands.ui([str(project.datasets / "tones.yaml"), "--port", "3123"])
    home = project.datasets / ".headrace/dagster"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    ((program, words),) = started
    assert program == sys.executable
    assert words[1:8] == ["-m", "dagster", "dev", "--host", "127.0.0.1", "--port", "3123"]
    assert (home / "dagster.yaml").is_file()


def test_ui_names_what_is_wrong_with_the_file(project, capsys):
    (project.datasets / "tones.yaml").write_text("nonsense: 1\n")
    assert commands.ui([str(project.datasets / "tones.yaml")]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_set_that_left_the_yaml_is_named(project, capsys):
    assert build(project) == 0
    assert "no longer in the YAML" not in capsys.readouterr().out
    folder = project.output / "columns/gone/snapshots"
    folder.mkdir(parents=True)
    (folder / "1.json").write_bytes(b"{}")
    assert build(project) == 0
    said = capsys.readouterr().out
    assert "columns/gone (2 bytes): no longer in the YAML; `headrace gc " in said
    assert f"--left-behind --config {project.datasets / 'tones.yaml'}` removes them" in said


CODE = {
    "transform": {"audio": {"transform": {"function": "users_code:half", "fingerprint": "1"}}},
    "feature": {"features": [{"name": "loud", "kind": "custom", "feature": "users_code:loud"}]},
}
USERS_CODE = """
def half(audio, sample_rate, metadata):
    return audio / 2, sample_rate

def loud(audio, sample_rate):
    return {"peak": float(abs(audio).max())}

loud.columns, loud.fingerprint = {"peak": "float"}, "1"
"""


@pytest.mark.parametrize("what", CODE)
def test_code_of_the_user_is_imported_from_the_root(project, tmp_path, monkeypatch, what):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in {"", str(tmp_path)}])
    monkeypatch.delitem(sys.modules, "users_code", raising=False)
    (tmp_path / "users_code.py").write_text(USERS_CODE)
    project.write_yaml(**CODE[what])
    assert build(project, "--root", str(tmp_path)) == 0
    assert sys.path[-1] == str(tmp_path)
    monkeypatch.delitem(sys.modules, "users_code")


def test_files_of_encoders_are_found_below_the_root(project, tmp_path, monkeypatch):
    np.save(tmp_path / "centroids.npy", np.eye(8, dtype=np.float32))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    encoder = {"kind": "kmeans", "encoder": {"kind": "log_mel", "num_mels": 8}, "centroids": "centroids.npy"}
    project.write_yaml(latents=[{"name": "units", "encoder": encoder}])
    assert build(project, "--root", str(tmp_path)) == 0
    assert len(json.loads((project.output / "latents/units/sizes.json").read_text())) == len(project.sizes())


def test_every_build_says_that_an_optional_table_is_gone(project, home, tmp_path, capsys):
    """Also a build with nothing to do, and one that knows this before it starts Dagster."""
    table = tmp_path / "scores.csv"
    table.write_text("file,score\n" + "".join(f"{path.name},1\n" for path in project.recordings.iterdir()))
    project.write_yaml(columns=[{"name": "scores", "table": str(table), "path": "file", "optional": True}])
    assert build(project) == build(project) == 0
    assert "is not there" not in capsys.readouterr().out
    table.unlink()
    for _ in range(3):
        assert build(project) == 0
        line = f"columns scores: the table {table} is not there; these columns are left as they were"
        assert line in capsys.readouterr().out
        assert build(project, "--json") == 0
        assert json.loads(capsys.readouterr().out)["warnings"] == [{"asset": "tones/scores_columns", "warning": line}]


@pytest.mark.parametrize("port", ["0", "65536", "-5", "99999999", "x", "", "३"])
def test_a_port_that_no_server_can_have_is_an_error_before_dagster_starts(project, capsys, port):
    with pytest.raises(SystemExit, match="2"):
        commands.ui([str(project.datasets / "tones.yaml"), f"--port={port}"])
    assert "expected a number from 1 to 65535" in capsys.readouterr().err
