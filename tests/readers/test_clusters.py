"""Tests with packages that need a separate environment on top of ours: Ray, Megatron-Energon, JAX."""

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from tests.support.environments import make_environment
from tests.support.projects import Project
from tests.support.streaming.corpus import clips, write_dataset

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "clusters"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python interpreter with these packages and all of ours."""
    folder = tmp_path_factory.mktemp("readers") / "venv"
    yield make_environment(folder, "--no-deps", "-r", f"{SCRIPTS}/requirements.txt", beside_ours=True) / "python"
    shutil.rmtree(folder)


@pytest.mark.parametrize("reader", ["ray", "energon"])
def test_energon_and_ray_read_our_shards_unchanged(reader, python, tmp_path):
    write_dataset(tmp_path / "ours", {"train": clips(12)})
    (tmp_path / "tars").mkdir()  # Energon writes its index beside the shards
    tars = [shutil.copy(tar, tmp_path / "tars") for tar in sorted((tmp_path / "ours/audio").glob("*.tar"))]
    found = json.loads(_run(python, SCRIPTS / f"read_{reader}.py", *tars).splitlines()[-1])
    assert found == {key: found for tar in tars for key, found in _samples(tar)}


def test_work_is_sent_to_the_cluster_and_its_result_or_error_is_returned(python, ray_folder):
    found = json.loads(_run(python, SCRIPTS / "work_on_ray.py", RAY_TMPDIR=ray_folder).splitlines()[-1])
    assert "is gone" in found.pop("killed")
    assert found == {
        "is elsewhere": True, "threads": True, "gpus": True, "progress": 15,
        "error": ["truncated", "tone.wav ends early"],
        "files": True, "files are read elsewhere": True, "files after a death": True,
        "error of a file": "file 99 ends early",
    }  # fmt: skip


def test_a_dataset_built_on_a_cluster_equals_a_local_build(python, ray_folder, tmp_path):
    project = Project(tmp_path)
    project.write_tones(9)
    (project.recordings / "broken.wav").write_bytes(b"RIFF")
    project.write_yaml(latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}])
    files = []
    for place in ({}, {"HEADRACE_RAY_ADDRESS": "local", "HEADRACE_RAY_CPUS": "2", "RAY_TMPDIR": ray_folder}):
        home = shutil.copytree(ROOT / "dagster_home", tmp_path / f"home{len(files)}", ignore=lambda *_: ["storage"])
        printed = _run(
            python, ROOT / "build.py", "tones", "--datasets", project.datasets, DAGSTER_HOME=str(home), **place
        )
        assert "broken.wav" in printed
        files.append(project.files())
        shutil.rmtree(project.output)
    made, made_by_ray = files
    assert {name for name in made if name.endswith(".tar")}
    assert made_by_ray.keys() == made.keys()
    assert [name for name in made if made_by_ray[name] != made[name]] == []


def test_a_node_that_is_killed_in_the_middle_of_a_build_changes_no_byte(python, ray_folder, tmp_path):
    """Three Ray nodes on this machine, one of which dies; the benchmark does the same with 10,000 recordings."""
    options = ("--recordings", "90", "--partitions", "6", "--json", tmp_path / "found.json")
    _run(python, ROOT / "benchmarks/raylets.py", *options, RAY_TMPDIR=ray_folder)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["same_bytes"]
    assert found["ray"]["killed_after_partitions"] == 2


def test_jax_resumes_in_the_middle_of_an_epoch(python, tmp_path):
    write_dataset(tmp_path, {"train": clips(53)})
    audio, devices = str(tmp_path / "audio"), {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = (python, ROOT / "examples/with_jax.py", audio, tmp_path / "checkpoint.json")
    shown = [re.findall(r"clip\d+", _run(*command, **devices)) for _ in range(2)]
    loader = StreamingDataLoader(StreamingDataset(remote=audio, split="train", batch_size=8, shuffle=True))
    expected = [batch["keys"][0] for _ in range(3) for batch in loader]
    assert shown == [expected[:10], expected[10:20]]


@pytest.fixture
def ray_folder():
    """The folder of Ray's sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        yield folder


def _run(python, *command, **variables):
    """Run a script. Returns what it prints."""
    # Ray listens on all interfaces. A token keeps others out; given by the environment, it is not written to a file.
    ray = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    done = subprocess.run(
        [python, *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | ray | {"PYTHONPATH": str(ROOT)} | variables,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def _samples(path):
    """Key of each sample in a tar, and the digest of its FLAC and JSON."""
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    for name, content in files.items():
        key, _, field = name.partition(".")
        if field == "flac":
            yield key, [hashlib.sha256(content).hexdigest(), json.loads(files[f"{key}.json"])]
