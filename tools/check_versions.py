"""Tests the lowest versions of dependencies, and versions of Python: `python -m tools.check_versions WHEEL [NAME …]`.

Each is tested in an environment of its own below `build/versions`, made by uv from wheels alone:

- the lowest versions that pyproject.toml allows, with the fast tests of the loader and the formats;
- each Python: the wheel and what it needs is resolved, installed and imported, and indexes, inspects, verifies and
  loads tars. What is not to be had here (an interpreter, a CPU build of torch) is skipped by name.

torch is the version of constraints.txt in all of them, since a build for CUDA brings gigabytes. Writes
`benchmarks/results/versions.json`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/versions"
RESULTS = ROOT / "benchmarks/results/versions.json"
PYTHONS = ("3.11", "3.12", "3.13")
TESTS = ("tests/format", "tests/streaming")
_EXTRAS = ("av", "dagster", "onnx", "parquet", "where")  # some tests of the loader build what they load
_TOOLS = re.compile(
    r"(?im)^(?:pytest|pytest-xdist|pytest-timeout|hypothesis|psutil|moto|flask|flask-cors|httpx|pillow|torchdata)==.*$"
)
_OF_CUDA = re.compile(r"(?m)^(?:torch|triton|nvidia-.*|cuda-.*)==.*\n")
_LAST_LINE = re.compile(r"(?m)^(?:FAILED|ERROR) .*$|^\d+ .*(?:passed|failed|error).*$")
_WRITE = """
import sys, pathlib
from tests.support.foreign_tars import write_tars
write_tars(pathlib.Path(sys.argv[1]))
"""
_USES = """
import sys, warnings
warnings.simplefilter("error", DeprecationWarning)
from headrace import StreamingDataLoader, StreamingDataset
from headrace.cli import main
for words in (["index", sys.argv[1]], ["inspect", sys.argv[1]], ["verify", sys.argv[1]]):
    assert main(words) == 0, words
assert len(list(StreamingDataLoader(StreamingDataset(remote=sys.argv[1], batch_size=4)))) == 3
"""


class Uv:
    """uv in an environment of its own; it finds wheels where pip finds them."""

    def __init__(self) -> None:
        python = FOLDER / "tools/bin/python"
        if not python.exists():
            run([sys.executable, "-m", "venv", FOLDER / "tools"])
            run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"])
        self._command = [FOLDER / "tools/bin/uv"]
        self._environment = os.environ | {"UV_NO_BUILD": "1", "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}

    def __call__(self, *words: object) -> str:
        """Output of uv. Raises `CalledProcessError`."""
        return run([*self._command, *words, "--quiet"], env=self._environment)

    def resolved(self, *words: str) -> str:
        """The requirements of the wheel. Raises `CalledProcessError` if there is no solution."""
        (override := FOLDER / "torch.txt").write_text(f"{torch_pin()}\n")
        options = ["--no-header", "--no-annotate", "--override", override]
        return self("pip", "compile", ROOT / "pyproject.toml", *options, *words)

    def environment(self, name: str, python: str, *needed: object) -> Path:
        """The Python of an environment with these packages and no others. Raises `CalledProcessError`."""
        self("venv", "--clear", "--python", python, FOLDER / name)
        made = FOLDER / name / "bin/python"
        self("pip", "install", "--python", made, "--no-deps", *needed)
        return made


def run(words: Sequence[object], **options: Any) -> str:  # noqa: ANN401 - those of subprocess
    """Output of a program. Raises `CalledProcessError`."""
    done = subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE, text=True, **options)  # noqa: S603
    return str(done.stdout)


def torch_pin() -> str:
    """The requirement of torch in constraints.txt."""
    (pin,) = re.findall(r"(?m)^torch==.*$", (ROOT / "constraints.txt").read_text())
    return str(pin)


def without_cuda(needed: str) -> str:
    """Requirements without torch, and without what a build of it for CUDA brings."""
    return _OF_CUDA.sub("", f"{needed}\n")


def interpreter(version: str) -> str | None:
    """An interpreter of a version, on the path or below pyenv's folder; None without one that runs."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in (shutil.which(f"python{version}"), *sorted(folder.glob(f"{version}.*/bin/python"))):
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:  # noqa: S603
            return str(python)
    return None


def lowest(uv: Uv) -> dict[str, Any]:
    """The versions that were tested, and what the tests said."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    extras = [word for extra in _EXTRAS for word in ("--extra", extra)]
    needed = without_cuda(uv.resolved("--resolution", "lowest-direct", "--python-version", version, *extras))
    (file := FOLDER / "lowest.txt").write_text(needed)
    (tools := FOLDER / "tools.txt").write_text("\n".join(_TOOLS.findall((ROOT / "constraints.txt").read_text())))
    python = uv.environment("lowest", sys.executable, "--requirement", file)
    uv("pip", "install", "--python", python, "--no-deps", f"{torch_pin()}+cpu")
    uv("pip", "install", "--python", python, "--requirement", tools, "--constraint", file)
    options = [
        "-q",
        "-n",
        "2",
        "--tb",
        "no",
        "-m",
        "not slow and not gpu",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "120",
    ]
    options += ["--continue-on-collection-errors"]  # examples of trainers, which need Dagster
    done = subprocess.run([python, "-m", "pytest", *options, *TESTS], cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603, PLW1510
    return {
        "python": version,
        "versions": [*needed.split(), f"{torch_pin()}+cpu"],
        "tests": _LAST_LINE.findall(done.stdout),
    }


def of_python(uv: Uv, version: str, wheel: Path) -> dict[str, Any]:
    """Steps that were taken with a version of Python, and those that were skipped."""
    if (found_python := interpreter(version)) is None:
        return {"skipped": f"no interpreter of Python {version}"}
    needed = uv.resolved("--python-version", version)
    (file := FOLDER / f"{version}.txt").write_text(without_cuda(needed))
    python = uv.environment(version, found_python, "--requirement", file, wheel)
    found = {
        "resolved": len(needed.split()),
        "installed": True,
        "imported": bool(run([python, "-Ic", "import headrace"]) == ""),
    }
    try:
        uv("pip", "install", "--python", python, f"{torch_pin()}+cpu")
    except subprocess.CalledProcessError:
        return found | {
            "skipped": f"index, inspect, verify, loading: no CPU build of {torch_pin()} for Python {version}"
        }
    with tempfile.TemporaryDirectory() as folder:
        run([sys.executable, "-c", _WRITE, folder], cwd=ROOT)
        run([python, "-Ic", _USES, folder])
    return found | {"used": True}


def main() -> None:
    """Test all, print the results and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("names", nargs="*", help="lowest, 3.12, …; all by default", default=["lowest", *PYTHONS])
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    uv, results = Uv(), json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.names:
        results[name] = lowest(uv) if name == "lowest" else of_python(uv, name, given.wheel.resolve())
    results["torch"] = torch_pin()
    print(json.dumps(results, indent=1))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
