"""Executes work on a local Ray cluster as assets do, and prints the results."""

import json
import os
import signal
import sys

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
ray.shutdown()
sys.stdout.write(json.dumps(found) + "\n")
