"""Executes work on a local Ray cluster as assets do, and prints the results."""

import json
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import ray

from headrace.errors import AudioError, BuildError
from headrace_dagster.resources.ray_workers import RayWorkersResource


def made(*, num_threads, progress):
    """Give progress and a result."""
    for _ in range(5):
        progress(3)
    return os.getpid(), num_threads, ray.get_gpu_ids()


def refused(*, num_threads, progress):
    """Raise a Headrace error with an attribute."""
    raise AudioError("truncated", "tone.wav ends early")


def killed(*, num_threads, progress):
    """Die like a machine that fails."""
    os.kill(os.getpid(), signal.SIGKILL)


def read(number):
    """Read a file: its number, and who read it."""
    if number == 99:
        raise AudioError("truncated", "file 99 ends early")
    return number, os.getpid()


def read_at_the_second_attempt(marks, number):
    """Die while file 7 is read for the first time."""
    mark = Path(marks, str(number))
    if number == 7 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


workers = RayWorkersResource(address="local", num_cpus=500)
counts = []
pid, num_threads, gpus = workers.run(made, counts.append, on_gpu=True)
found = {
    "is elsewhere": pid != os.getpid(),
    "threads": num_threads == ray.cluster_resources()["CPU"],
    "gpus": len(gpus) == int(ray.cluster_resources().get("GPU", 0) > 0),
    "progress": sum(counts),
}
try:
    workers.run(refused, counts.append)
except AudioError as error:
    found["error"] = [error.reason, str(error)]
try:
    workers.run(killed, counts.append)
except BuildError as error:
    found["killed"] = str(error)
results = list(workers.map(read, range(40)))
found["files"] = sorted(number for number, _ in results) == list(range(40))
found["files are read elsewhere"] = os.getpid() not in {pid for _, pid in results}
try:
    list(workers.map(read, range(200)))
except AudioError as error:
    found["error of a file"] = str(error)
some = workers.map(read, iter(range(90)))
next(some)
some.close()
with tempfile.TemporaryDirectory() as marks:
    repeated = workers.map(partial(read_at_the_second_attempt, marks), range(40))
    found["files after a death"] = sorted(repeated) == list(range(40))
ray.shutdown()
sys.stdout.write(json.dumps(found) + "\n")
