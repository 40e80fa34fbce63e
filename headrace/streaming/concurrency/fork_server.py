"""Prepares Python's fork server, and gives its children the environment of today.

A fork server that has imported nothing leaves it to each worker, in each epoch: seconds of CPU time, mostly for torch.
Its socket is in the temporary folder; if a cleaner removes it, no process can be started any more.

Borrowed ground: this module uses private attributes of the standard library.

- Leans on: attributes of `multiprocessing.forkserver._forkserver`: `_preload_modules`, the modules that the fork server
  will import, and `_forkserver_address`, `_forkserver_alive_fd` and `_forkserver_pid`, its socket, pipe and process.
- Why: a list that the user has set stays; a server that cannot be reached is replaced.
- Missing public way: `multiprocessing.set_forkserver_preload` replaces the list, and nothing returns it. A server is
  replaced only if its process has ended.
- Breaks first on an upgrade: tests/streaming/concurrency/test_fork_server.py. Without the attributes, nothing is
  preloaded or replaced.
"""

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping
from multiprocessing import forkserver, util
from pathlib import Path
from typing import Any

_DEFAULT = ["__main__"]
_PRELOADED = ["__main__", "headrace.streaming.loader", "headrace.plain.loader"]


def prepare_fork_server() -> None:
    """Have the fork server import the loaders, unless it is running already, or the user has chosen other modules.

    The loaders import torch, but no client of an object store: its threads would not survive the fork. A server whose
    socket is gone is left to end with its children; the next process is started by a new one.
    """
    server = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_preload_modules", None) == _DEFAULT:
        multiprocessing.set_forkserver_preload(_PRELOADED)
    address = getattr(server, "_forkserver_address", None)
    if server is not None and address is not None and not Path(address).exists():
        _forget(server)


def _forget(server: Any) -> None:  # noqa: ANN401 - the types of the standard library have no private attributes
    os.close(server._forkserver_alive_fd)  # noqa: SLF001 - see above; the server ends when its children have
    threading.Thread(target=os.waitpid, args=(server._forkserver_pid, 0), daemon=True).start()  # noqa: SLF001
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None  # noqa: SLF001
    Path(util.get_temp_dir()).mkdir(mode=0o700, exist_ok=True)  # where the new socket will be


class WorkerStart:
    """Prepares a worker: sets the environment variables of the process that starts it, and keeps its heap shared.

    The variables are pickled, and are those of this moment.

    Clients of stores find their credentials there. A fork server is shared by the whole process, and has the
    environment of when its first child was started.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """Without variables, for a worker that is forked, there is nothing to set."""
        self._variables = variables

    def __call__(self, _worker: int) -> None:
        """Prepare it; the signature is that of a `worker_init_fn` of torch."""
        if self._variables is not None:
            take_over(self._variables)
        gc.freeze()  # what was imported before the fork is never searched for garbage, which would also copy its pages

    def __reduce__(self) -> tuple[Callable[..., "WorkerStart"], tuple[dict[str, str]]]:
        """Pickle with the variables of now."""
        return WorkerStart, (dict(os.environ),)


def take_over(environment: Mapping[str, str]) -> None:
    """Set these environment variables, and remove all others."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
