"""Scripts with loaders that are killed, interrupted, terminated, or end without closing their loaders."""

import signal
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.medium

_ENDLESS = """
import sys, time
from headrace import Stream, StreamingDataLoader, StreamingDataset

def slowly(sample):
    time.sleep(0.05)
    return sample

if __name__ == "__main__":
    endless = Stream(sys.argv[1], repeat=1000)  # an epoch takes a quarter of an hour
    dataset = StreamingDataset(streams=[endless], batch_size=8, transform=slowly)
    for batch in StreamingDataLoader(dataset, num_workers=int(sys.argv[2])):
        print("batch", flush=True)
"""


@pytest.mark.slow
def test_workers_of_a_killed_process_end_by_themselves(dataset_folder, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(_ENDLESS)
    process = subprocess.Popen(
        [sys.executable, str(script), f"{dataset_folder}/audio", "3"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "batch\n"
    workers = psutil.Process(process.pid).children()
    assert len(workers) == 3
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive


@pytest.mark.parametrize("num_workers", [pytest.param("0", marks=pytest.mark.slow), "2"])
def test_ctrl_c_ends_at_once(dataset_folder, tmp_path, num_workers):
    script = tmp_path / "train.py"
    script.write_text(_ENDLESS)
    process = subprocess.Popen(
        [sys.executable, str(script), f"{dataset_folder}/audio", num_workers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "batch\n"
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors
    assert "Traceback" not in errors.partition("KeyboardInterrupt")[2]


_TERMINATED_IN_FORK = """
import os, signal, sys
from headrace import StreamingDataLoader, StreamingDataset

signal.signal(signal.SIGTERM, signal.default_int_handler)  # it raises, as where Dagster runs code
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
try:
    next(iter(StreamingDataLoader(StreamingDataset(remote=sys.argv[1], batch_size=8), num_workers=1)))
except RuntimeError as error:
    print(error)
"""


def test_a_worker_terminated_while_it_is_forked_ends_there(dataset_folder):
    command = [sys.executable, "-c", _TERMINATED_IN_FORK, f"{dataset_folder}/audio"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.endswith("killed by SIGTERM\n")
    assert done.stderr == ""


@pytest.mark.parametrize(  # it decides what is torn down first
    "also", ["", pytest.param("import headrace, json, warnings\n", marks=pytest.mark.slow)]
)
def test_a_script_that_leaves_its_loaders_to_the_interpreter_ends_without_a_word(dataset_folder, also):
    program = (
        f"{also}import sys; from headrace import StreamingDataLoader, StreamingDataset\n"
        "dataset = StreamingDataset(remote=sys.argv[1], batch_size=8)\n"
        "running = [iter(StreamingDataLoader(dataset, num_workers=n)) for n in (0, 2)]\n"
        "print([len(next(batches)['keys']) for batches in running])\n"
    )
    words = [sys.executable, "-W", "error", "-c", program, f"{dataset_folder}/audio"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("[8, 8]\n", "", 0)
