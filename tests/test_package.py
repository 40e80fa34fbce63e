"""What `pip install` of a checkout brings: the library, whole, and nothing of the checkout beside it."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.streaming.corpus import clips, write_dataset

ROOT = Path(__file__).parent.parent
TRAINING = """
import sys, headrace
from headrace import StreamingDataLoader, StreamingDataset
print(headrace.__file__)
for batch in StreamingDataLoader(StreamingDataset(remote=sys.argv[1], batch_size=2), num_workers=1):
    print(*batch["keys"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that holds what the wheel does."""
    folder = tmp_path_factory.mktemp("wheel")
    # From a copy: setuptools would leave its own files in the checkout.
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in tracked.rstrip("\0").split("\0"):
        if name.startswith("headrace/") or "/" not in name:
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([*pip, *options, str(folder / "source")], check=True)
    (wheel,) = folder.glob("headrace-*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_every_module_is_there_and_nothing_else(installed):
    def files(root):
        return {
            str(path.relative_to(root)) for path in (root / "headrace").rglob("*") if path.suffix in {".py", ".typed"}
        }

    assert files(installed) == files(ROOT)
    assert {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")} == {"headrace"}


@pytest.mark.slow
def test_a_training_job_reads_with_it(installed, tmp_path):
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
