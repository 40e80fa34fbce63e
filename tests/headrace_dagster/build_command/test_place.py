"""The root of a data set that is named by its file, and errors for names that are no such file."""

import pytest

from headrace.errors import ConfigError
from headrace_dagster.build_command.place import place_of_file


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "project/data sets/birds.yaml"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [("workspace.yaml", ""), ("pyproject.toml", "[tool.dg]\n"), ("pyproject.toml", "[tool.dg.project]\na = 1\n")],
)
def test_the_root_is_the_nearest_project_above_the_file(file, name, content):
    (file.parents[1] / name).write_text(content)
    (file.parents[2] / "workspace.yaml").touch()
    assert place_of_file(file).root == file.parents[1]
    assert place_of_file(file, file.parents[2]).root == file.parents[2]


@pytest.mark.parametrize("content", ["[tool.ruff]\n", "[[not toml", "tool = 1\n"])
def test_another_pyproject_is_no_root(file, content):
    (file.parent / "pyproject.toml").write_text(content)
    assert place_of_file(file).root == file.parent


def test_the_history_is_beside_the_file(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    found = place_of_file(type(file)("birds.yaml"))
    assert (found.yaml, found.home) == (file, file.parent / ".headrace/dagster")


@pytest.mark.parametrize(
    ("name", "root", "said"),
    [
        ("gone.yaml", None, "gone.yaml: no such file"),
        ("birds.toml", None, "expected a file called NAME.yaml"),
        ("birds.yaml", "gone", "--root .*gone: no such folder"),
    ],
)
def test_what_is_wrong_is_named(file, name, root, said):
    (file.parent / "birds.toml").touch()
    with pytest.raises(ConfigError, match=said):
        place_of_file(file.parent / name, root and file.parent / root)
