"""Does work on a Ray cluster of this machine's own as assets do; prints what came of it."""

import json
import os
import signal
import sys

import ray

from headrace.errors import AudioError, BuildError
from resources.ray_workers import RayWorkersResource


def made(*, num_threads, progress):
    """A result, and progress."""
    for _ in range(5):
        progress(3)
    return os.getpid(), num_threads, ray.get_gpu_ids()


def refused(*, num_threads, progress):
    """An error of ours, with an attribute."""
    raise AudioError("truncated", "tone.wav ends early")


def killed(*, num_threads, progress):
    """As by a machine that is gone."""
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
