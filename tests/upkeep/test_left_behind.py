"""Sets and views that left the YAML: which they are, and how `headrace gc --left-behind` removes them."""

import json
import os
import time

import pytest
import yaml

from headrace.config.dataset import load_config
from headrace.stores.storage import LocalStorage
from headrace.upkeep.left_behind import left_behind, parts_of_yaml
from tests.support.builds import twenty_clips
from tests.support.commands import runner

pytestmark = pytest.mark.medium

OLD = ("latents/old/snapshots/1.json", "latents/old/manifests/train-0000/1.json", "latents/old/train_0.tar")
GONE = ("columns/gone/snapshots/1.json", "catalog/columns/gone/parts/1.parquet", "views/gone/snapshots/1.json")
KEPT = ("latents/new/snapshots/1.json", "columns/metadata/snapshots/1.json", "views/loud/snapshots/1.json")
FOREIGN = ("columns/mine/notes.txt", "latents/notes.txt")


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def project(tmp_path):
    """A built project; its output has parts that are in its YAML, and others, all three days old."""
    made = twenty_clips(tmp_path)
    made.build()
    for name in (*OLD, *GONE, *FOREIGN):
        made.output.write(name, b"{}")
    for path in (tmp_path / "output").rglob("*"):
        os.utime(path, (time.time() - 3 * 86_400,) * 2)
    return made


@pytest.fixture
def file(project):
    """The YAML of the project."""
    content = {
        "source": {"uri": str(project.folder / "source")},
        "output": {"uri": project.output.uri},
        "latents": [{"name": "new", "encoder": {"kind": "log_mel"}}],
        "views": {"loud": {"where": "snr > 1"}},
    }
    path = project.folder / "project.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def there(project):
    return {name for name in (*OLD, *GONE, *KEPT, *FOREIGN) if project.output.exists(name)}


def test_parts_that_the_yaml_names_and_folders_of_others_are_not_left_behind(project, file):
    for name in KEPT:
        project.output.write(name, b"{}")
    found = left_behind(project.output, parts_of_yaml(load_config(file)))
    assert {part.name: {entry.path for entry in part.files} for part in found} == {
        "columns/gone": set(GONE[:2]),
        "latents/old": set(OLD),
        "views/gone": {GONE[2]},
    }
    assert next(entry.path for entry in found[1].files) == OLD[0], "snapshots first"


def test_inspect_names_them_and_gc_removes_them(run, project, file):
    output = project.folder / "output"
    _, out, _ = run("inspect", output, "--config", file)
    assert "columns/gone (4 bytes), latents/old (6 bytes), views/gone (2 bytes): no longer in the YAML" in out
    assert json.loads(run("inspect", output, "--config", file, "--json")[1])["left_behind"]["latents/old"] == 6
    before = there(project)
    code, out, _ = run("gc", output, "--left-behind", "--config", file, "--dry-run")
    assert (code, there(project)) == (0, before)
    assert f"{output}/{OLD[2]}" in out
    found = json.loads(run("gc", output, "--left-behind", "--config", file, "--json")[1])
    assert set(found["left_behind"]) == {"columns/gone", "latents/old", "views/gone"}
    assert there(project) == set(FOREIGN)
    assert "no longer" not in run("inspect", output, "--config", file)[1]
    assert project.build().written == []


def test_a_part_with_a_young_file_stays_as_a_whole(run, project, file):
    project.output.write(OLD[2], b"[]")
    _, out, _ = run("gc", project.folder / "output", "--left-behind", "--config", file)
    assert "latents/old stays" in out
    assert there(project) == {*OLD, *FOREIGN}
    run("gc", project.folder / "output", "--left-behind", "--config", file, "--now", "--no-build-is-running")
    assert there(project) == set(FOREIGN)


def test_without_the_option_and_with_the_yaml_of_another_data_set_nothing_is_removed(run, project, file):
    output, before = project.folder / "output", there(project)
    run("gc", output)
    code, _, said = run("gc", output, "--left-behind")
    assert code == 1
    assert "--left-behind needs --config FILE.yaml" in said
    other = file.rename(file.with_name("other.yaml"))
    code, _, said = run("gc", output, "--left-behind", "--config", other)
    assert code == 1
    assert "the output belongs to the data set project" in said
    assert there(project) == before


def test_an_output_without_a_catalog_is_not_touched(run, project, file):
    project.output.delete("catalog/catalog.jsonl")
    code, _, said = run("gc", project.folder / "output", "--left-behind", "--config", file)
    assert code == 1
    assert "has no catalog" in said
    assert isinstance(project.output, LocalStorage)
