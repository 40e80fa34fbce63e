"""Makes Python's fork server import what all workers need, once for all of them.

A fork server that has imported nothing leaves it to each worker, in each epoch: seconds of CPU time, mostly for torch.

Borrowed ground: this module reads a private attribute of the standard library.

- Leans on: `multiprocessing.forkserver._forkserver._preload_modules`, the modules that the fork server will import.
- Why: a list that the user has set stays.
- Missing public way: `multiprocessing.set_forkserver_preload` replaces the list, and nothing returns it.
- Breaks first on an upgrade: tests/streaming/concurrency/test_fork_server.py. Without the attribute, nothing is
preloaded.
"""

import multiprocessing
from multiprocessing import forkserver

_DEFAULT = ["__main__"]
_PRELOADED = ["__main__", "headrace.streaming.loader", "headrace.plain.loader"]


def preload_workers() -> None:
    """Have the fork server import the loaders, unless it is running already, or the user has chosen other modules.

    The loaders import torch, but no client of an object store: its threads would not survive the fork.
    """
    server = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_preload_modules", None) == _DEFAULT:
        multiprocessing.set_forkserver_preload(_PRELOADED)
