"""Each project under `examples/` that adds a kind to Headrace passes its tests beside the installed wheel."""

import os
import subprocess
import sys
from zipfile import ZipFile

import pytest

from tests.support.wheels import ROOT, unpacked_wheel

PROJECTS = sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder that has the content of all wheels, as an environment has it."""
    folder = tmp_path_factory.mktemp("wheels")
    site = unpacked_wheel(folder)
    for project in PROJECTS:
        source = folder / project.name
        source.mkdir()
        for name in ("pyproject.toml", f"{project.name}.py"):
            (source / name).write_bytes((project / name).read_bytes())
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        options = ["--no-build-isolation", "--no-index", "--wheel-dir", str(folder / "others")]
        subprocess.run([*pip, *options, str(source)], check=True)
    for wheel in (folder / "others").glob("*.whl"):
        with ZipFile(wheel) as archive:
            archive.extractall(site)
    return site


def test_there_is_a_project_for_each_protocol():
    assert [path.name.removeprefix("own_") for path in PROJECTS] == ["encoder", "export", "outputs", "source", "store"]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_a_project_passes_its_own_tests(site, project, tmp_path):
    (tests,) = project.glob("test_*.py")
    (tmp_path / tests.name).write_bytes(tests.read_bytes())
    (tmp_path / "conftest.py").write_text(
        f"import headrace, {project.name}\n"
        f"for module in (headrace, {project.name}):\n"
        f"    assert module.__file__.startswith({str(site)!r}), module.__file__\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
