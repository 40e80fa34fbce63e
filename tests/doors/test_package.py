"""`pip install` of a checkout installs the complete library and nothing else of the checkout."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from headrace.testing import write_corpus
from tests.support.environments import make_environment
from tests.support.ports import reserved_port
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
        paths = (path for path in _walk(root / package) if path.suffix in {".py", ".typed", ".yaml"})
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


@pytest.fixture(scope="module")
def environment(installed, tmp_path_factory):
    """The Python of an environment in which the wheel is installed beside the packages of this one."""
    (wheel,) = installed.parent.glob("headrace-*.whl")
    words = ("--no-deps", "--no-index", str(wheel))
    return make_environment(tmp_path_factory.mktemp("environment"), *words, beside_ours=True)


@pytest.mark.slow
def test_a_first_build_needs_the_installed_wheel_and_a_file(environment, tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "tiny.yaml").write_text("source: {uri: recordings, settle_seconds: 0}\noutput: {uri: output}\n")
    command = [str(environment / "headrace"), "build", "tiny.yaml", "--json"]
    variables = {name: value for name, value in os.environ.items() if name not in {"DAGSTER_HOME", "PYTHONPATH"}}
    for is_changed in (True, False):
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["is_changed"] is is_changed
        assert found["snapshots"]["audio"]["splits"]["train"]["num_samples"] == 4
    assert (tmp_path / ".headrace/dagster/dagster.yaml").is_file()
    imported = "import headrace, headrace_dagster; print(headrace.__file__, headrace_dagster.__file__)"
    done = subprocess.run(
        [str(environment / "python"), "-c", imported], cwd=tmp_path, env=variables, capture_output=True, check=True
    )
    assert done.stdout.count(str(environment.parent).encode()) == 2


@pytest.mark.slow
def test_the_installed_wheel_lists_its_commands(environment):
    done = subprocess.run([str(environment / "headrace"), "--help"], capture_output=True, text=True, check=True)
    assert "bring a data set up to date" in done.stdout


@pytest.mark.slow
def test_the_web_interface_of_one_file_builds_its_data_set_by_itself(environment, tmp_path):
    write_corpus(tmp_path)
    content = {"source": {"uri": "recordings", "settle_seconds": 0}, "output": {"uri": "output"}}
    content |= {"splits": {"train": 1.0}, "shards": {"partitions": {"train": 1}}}
    (tmp_path / "tiny.yaml").write_text(json.dumps(content))
    (tmp_path / "other.yaml").write_text("not: a data set\n")
    with reserved_port() as port:
        _watch_over(environment, tmp_path, port)


def _watch_over(environment, tmp_path, port):
    command = [str(environment / "headrace"), "ui", "tiny.yaml", "--port", str(port)]
    variables = {name: value for name, value in os.environ.items() if name not in {"DAGSTER_HOME", "PYTHONPATH"}}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=log, stderr=log, start_new_session=True)
    try:
        sizes = tmp_path / "output/audio/sizes.json"
        deadline = time.monotonic() + 500
        while not sizes.exists() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.5)
        assert sum(json.loads(sizes.read_bytes()).values()) == 4, (tmp_path / "log").read_text()[-3000:]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info") as answer:
            assert "dagster_webserver_version" in json.load(answer)
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
