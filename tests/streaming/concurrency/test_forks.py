"""Workers forked from a process that has used an object store: they work, or refuse at once; nobody hangs or crashes.

Each test runs `forking` in a session of its own, because what it looks for takes a process down.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil
import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ForkedError

pytestmark = pytest.mark.medium

_LIMIT_SECONDS = 80
_REQUEST_SECONDS = 60


@dataclass(frozen=True, slots=True)
class _Ended:
    """Outcome of a run.

    Attributes:
        code: its exit code; negative for a signal.
        output: what it printed.
        errors: the same of its errors.
        left: whether it left processes behind.
        seconds: how long it took once everything was imported.
    """

    code: int
    output: str
    errors: str
    left: bool
    seconds: float


def _run(mode, remote, folder):
    command = [sys.executable, "-m", "tests.support.streaming.forking", mode, remote, str(folder / "cache")]
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:  # no pipe, which orphans would hold
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(_LIMIT_SECONDS)
            seconds = time.time() - (folder / "begun").stat().st_mtime
        finally:
            left = not _is_gone(process.pid)
            if left:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return _Ended(code, (folder / "out").read_text(), (folder / "err").read_text(), left, seconds)


def _is_gone(group, patience_seconds=20.0):
    """Whether no process of a group is left, soon."""
    deadline = time.monotonic() + patience_seconds
    while any(_is_of(group, process) for process in psutil.process_iter()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _is_of(group, process):
    """Whether a process of the group lives; a zombie waits for a parent that may never look."""
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


@pytest.mark.parametrize("mode", ["made", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("read", "ours"))])
def test_workers_that_are_forked_after_the_parent_used_a_store_read_it(server, dataset_folder, tmp_path, mode):
    ended = _run(mode, f"{server.uri}/audio", tmp_path)
    assert (ended.code, ended.left) == (0, False), ended.errors
    local = StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batch_size=8)
    assert json.loads(ended.output) == [batch["keys"] for batch in StreamingDataLoader(local)]


@pytest.mark.slow
def test_children_of_children_read_and_exit_in_order(server, tmp_path):
    ended = _run("generations", f"{server.uri}/audio", tmp_path)
    assert (ended.code, ended.output.strip(), ended.left) == (0, "3", False), ended.errors


@pytest.mark.slow
def test_where_no_copy_can_be_made_workers_refuse_at_once_and_say_what_to_do(server, tmp_path):
    ended = _run("hampered", f"{server.uri}/audio", tmp_path)
    assert (ended.code, ended.left) == (1, False), ended.errors
    assert "multiprocessing_context='forkserver'" in ended.errors
    assert ended.seconds < _REQUEST_SECONDS / 2


def test_threads_that_ask_at_once_all_get_the_error(server, tmp_path):
    ended = _run("crowd", f"{server.uri}/audio", tmp_path)
    assert json.loads(ended.output) == ["ConfigError"] * 16, ended.errors


def test_a_forked_process_that_inherits_an_iterator_gets_an_error(dataset_folder):
    batches = iter(StreamingDataLoader(StreamingDataset(remote=f"{dataset_folder}/audio", split="train")))
    next(batches)
    pid = os.fork()
    if pid == 0:
        try:
            next(batches)
        except ForkedError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert sum(1 for _ in batches) == 52


@pytest.mark.slow
def test_an_iterator_that_a_forked_process_inherits_is_an_error_there_and_goes_on_here(server, tmp_path):
    ended = _run("inherited", f"{server.uri}/audio", tmp_path)
    assert (ended.code, ended.left) == (0, False), ended.errors
    batches, samples = ["ForkedError", 7], ["ForkedError", 53]
    assert json.loads(ended.output) == {
        "threads": batches,
        "workers": batches,
        "samples": ["ForkedError", 56],  # with padding
        "webdataset": samples,
        "webdataset's workers": samples,
    }
