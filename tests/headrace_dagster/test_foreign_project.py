"""Each command of docs/dagster.md, in another Dagster project, with the wheel and without this checkout."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from headrace.testing import write_corpus
from tests.support.live import DagsterDev
from tests.support.wheels import ROOT, unpacked_wheel

DOCUMENT = (ROOT / "docs/dagster.md").read_text()
SCRIPTS = ("dg", "dagster", "pytest")
PROJECT = """\
[project]
name = "corpora"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "corpora"
"""
DEFINITIONS = """\
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Variables of an environment that has the wheel, and of the packages here those that it needs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    site = folder / f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    for part in unpacked_wheel(folder).iterdir():
        part.rename(site / part.name)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in SCRIPTS:
        (found,) = entry_points(group="console_scripts", name=name)
        script, (module, _, function) = python.with_name(name), found.value.partition(":")
        lines = f"import sys\nfrom {module} import {function}\nif __name__ == '__main__':\n    sys.exit({function}())\n"
        script.write_text(f"#!{python}\n{lines}")
        script.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / "dagster_home/dagster.yaml").read_text())
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {
        **inherited,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(folder / "venv"),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "COLUMNS": "200",
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("projects") / "corpora"
    for path, text in {
        "pyproject.toml": PROJECT,
        "src/corpora/__init__.py": "",
        "src/corpora/definitions.py": DEFINITIONS,
        "src/corpora/defs/__init__.py": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    write_corpus(folder / "data/birds")
    return folder


@pytest.mark.slow
def test_each_command_and_file_of_the_document_works_in_order(environment, project):
    environment = {**environment, "PYTHONPATH": str(project / "src")}
    printed = {}
    for language, text in re.findall(r"```(sh|yaml|python)\n(.*?)```", DOCUMENT, re.DOTALL):
        if language == "sh":
            for command in text.splitlines():
                if not command.startswith(("pip ", "dagster sensor stop")):  # which the next test runs
                    printed[command] = run(command, project, environment)
        else:
            name, content = text.split("\n", 1)
            path = project / name.removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    assert "headrace_dagster.Dataset" in printed["dg list components"]
    assert "birds/audio_shards" in printed["dg list defs"]
    assert "3 passed" in printed["pytest tests"]
    (preview,) = [text for command, text in printed.items() if command.startswith("dagster sensor preview")]
    assert "no change" in preview
    assert (project / "data/birds/output/audio/sizes.json").exists()
    where = run("python -c 'import headrace_dagster; print(headrace_dagster.__file__)'", project, environment)
    assert where.startswith(environment["VIRTUAL_ENV"])


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def repeated(command: str, is_done: Callable[[], bool], folder: Path, environment: dict[str, str]) -> None:
    """Run a command again until it holds: Dagster loses a status that is set while a tick stores the sensor's state."""
    for _ in range(5):
        run(command, folder, environment)
        if is_done():
            return
    raise AssertionError(f"{command}: without effect")


SENSOR = """query($name: String!) { sensorOrError(sensorSelector: {repositoryLocationName: "corpora",
  repositoryName: "__repository__", sensorName: $name}) { ... on Sensor { sensorState { status } } } }"""


@pytest.mark.slow
def test_a_data_set_is_switched_off_in_the_running_instance(environment, project):
    """The commands of the document stop the sensors of `dg dev`; the same commands with `-m` stop nothing."""
    environment = {**environment, "PYTHONPATH": str(project / "src")}
    files = dict(text.split("\n", 1) for text in re.findall(r"```yaml\n# (.*?)```", DOCUMENT, re.DOTALL))
    for path in ("src/corpora/defs/birds/defs.yaml", "workspace.yaml"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(files[path])
    stops = re.findall(r"^dagster sensor stop .*$", DOCUMENT, re.MULTILINE)
    names = [command.split()[3] for command in stops]
    assert names == ["birds_source_changes", "birds_stale_partitions"]
    server = DagsterDev(project.parent, project, variables=environment)
    server.command, server.place = [str(Path(environment["VIRTUAL_ENV"], "bin/dg")), "dev"], project
    environment["DAGSTER_HOME"] = str(server.home)

    def statuses():
        states = [server.query(SENSOR, name=name)["sensorOrError"] for name in names]
        return [state["sensorState"]["status"] for state in states]

    server.start()
    try:
        assert statuses() == ["RUNNING", "RUNNING"]
        run(stops[0].replace("-w workspace.yaml", "-m corpora.definitions"), project, environment)
        assert statuses() == ["RUNNING", "RUNNING"]
        for number, command in enumerate(stops):
            repeated(command, lambda number=number: statuses()[number] == "STOPPED", project, environment)
        assert statuses() == ["STOPPED", "STOPPED"]
        repeated(stops[0].replace(" stop ", " start "), lambda: statuses()[0] == "RUNNING", project, environment)
        assert statuses() == ["RUNNING", "STOPPED"]
    finally:
        server.stop()
