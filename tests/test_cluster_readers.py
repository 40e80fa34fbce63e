"""Ray Data and Megatron-Energon read our shards unchanged. They come into an environment of their own, over ours."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from tests.streaming.corpus import clips, write_dataset

READERS = Path(__file__).parent / "readers"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter that has both, and all that we have."""
    folder = tmp_path_factory.mktemp("readers") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    ours = sysconfig.get_path("purelib")
    (theirs,) = folder.glob("lib/python*/site-packages")
    (theirs / "ours.pth").write_text(ours)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([folder / "bin/python", *install, "-r", READERS / "requirements.txt"], check=True)
    yield folder / "bin/python"
    shutil.rmtree(folder)


@pytest.mark.parametrize("reader", ["ray", "energon"])
def test_a_reader_of_clusters_reads_our_shards_unchanged(reader, python, tmp_path):
    write_dataset(tmp_path / "ours", {"train": clips(12)})
    (tmp_path / "tars").mkdir()  # Energon keeps its index beside them
    tars = [shutil.copy(tar, tmp_path / "tars") for tar in sorted((tmp_path / "ours/audio").glob("*.tar"))]
    done = subprocess.run(
        [python, READERS / f"read_{reader}.py", *tars],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {key: found for tar in tars for key, found in _samples(tar)}


def _samples(path):
    """Key, and digest of the FLAC with the JSON, of each sample of a tar."""
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    for name, content in files.items():
        key, _, field = name.partition(".")
        if field == "flac":
            yield key, [hashlib.sha256(content).hexdigest(), json.loads(files[f"{key}.json"])]
