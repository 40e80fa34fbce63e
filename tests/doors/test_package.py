"""`pip install` of a checkout installs the complete library and nothing else of the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.streaming.corpus import clips, write_dataset
from tests.support.wheels import ROOT, unpacked_wheel

TRAINING = """
import sys, headrace
from headrace import StreamingDataLoader, StreamingDataset
print(headrace.__file__)
for batch in StreamingDataLoader(StreamingDataset(remote=sys.argv[1], batch_size=2), num_workers=1):
    print(*batch["keys"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the content of the wheel."""
    return unpacked_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_the_wheel_contains_every_module_and_nothing_else(installed):
    def files(root, package):
        paths = (path for path in _walk(root / package) if path.suffix in {".py", ".typed"})
        return {str(path.relative_to(root)) for path in paths}

    for package in ("headrace", "headrace_dagster"):
        assert files(installed, package) == files(ROOT, package)
    found = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert found == {"headrace", "headrace_dagster"}


def _walk(folder):
    """The files below a folder, also behind links to folders."""
    for path in folder.iterdir():
        yield from _walk(path) if path.is_dir() else [path]


@pytest.mark.slow
def test_a_training_job_reads_with_the_installed_wheel(installed, tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "audio")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    where, *keys = done.stdout.split()
    assert Path(where).is_relative_to(installed)
    assert sorted(keys) == sorted(clip.key for clip in clips(4))
