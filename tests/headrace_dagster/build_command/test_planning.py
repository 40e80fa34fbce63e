"""`headrace build --plan`: what a build would make is what it then makes, and nothing is written."""

import json
import sys
from pathlib import Path

import pytest

from headrace import cli
from headrace_dagster.build_command import commands

pytestmark = pytest.mark.medium


def plan(project, capsys):
    assert commands.build([str(project.datasets / "tones.yaml"), "--plan", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_before_the_first_build_nothing_is_written(project, tmp_path, capsys):
    before = files(tmp_path)
    found = plan(project, capsys)
    assert files(tmp_path) == before
    assert {one["need"] for one in found["partitions"].values()} == {"missing"}
    assert found["total"]["num_samples"] == found["num_recordings"] == 6
    sizes = sum(path.stat().st_size for path in project.recordings.iterdir())
    assert 0.9 * sizes < found["total"]["num_bytes"] <= sizes
    assert commands.build([str(project.datasets / "tones.yaml"), "--plan"]) == 0
    said = capsys.readouterr().out
    assert "partitions to build (missing:" in said
    assert "6 samples" in said
    assert said.endswith("nothing was written\n")


def test_after_a_change_its_partition_is_planned(built, capsys):
    before = files(built.output)
    found = plan(built, capsys)
    assert (found["partitions"], found["total"]["num_samples"]) == ({}, 0)
    changed = next(iter(sorted(built.recordings.iterdir())))
    (built.recordings / "another.wav").write_bytes(changed.read_bytes())
    found = plan(built, capsys)
    assert [one["need"] for one in found["partitions"].values()] == ["changed"]
    assert found["num_recordings"] == 7
    assert files(built.output) == before


def test_a_plan_that_cannot_be_made_has_the_exit_code_of_a_build(project, capsys):
    (project.datasets / "tones.yaml").write_text("nonsense: 1\n")
    assert commands.build([str(project.datasets / "tones.yaml"), "--plan"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_source_without_usable_recordings_stops_the_plan_as_it_stops_the_build(built, capsys):
    built.write_yaml(source={"uri": str(built.recordings), "settle_seconds": 0, "min_seconds": 100})
    assert commands.build([str(built.datasets / "tones.yaml"), "--plan"]) == 1
    assert "none is usable" in capsys.readouterr().err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_standard_output_that_is_full_is_not_called_a_temporary_folder(project, monkeypatch, capfd, form):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["build", str(project.datasets / "tones.yaml"), "--plan", *form]) == 1
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith("headrace build: standard output")
