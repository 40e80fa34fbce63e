"""Passes open file descriptors to other processes, by way of the undocumented module `multiprocessing.reduction`.

Used: `send_handle`, `recv_handle` and `DupFd`, and `multiprocessing.context.get_spawning_popen`. Why: batches and the
epoch board are in anonymous memory files, which have no name that another process could open. Public way: there is one
for sockets (`socket.send_fds`) but none for the pipe of a worker process or for a process that is being started. On an
upgrade of Python, the first tests that fail are tests/streaming/test_forks.py (workers) and
tests/streaming/run/test_epoch_board.py (the epoch board).
"""

from multiprocessing import connection, reduction
from multiprocessing.context import get_spawning_popen
from typing import Any


def send_descriptor(pipe: connection.Connection, descriptor: int) -> None:
    """Send an open file to the process at the other end of a pipe. The caller keeps its own descriptor."""
    reduction.send_handle(pipe, descriptor, None)


def receive_descriptor(pipe: connection.Connection) -> int:
    """Receive an open file: a descriptor that the caller must close. Raises `EOFError` or `OSError` if none comes."""
    return reduction.recv_handle(pipe)


def is_starting_a_process() -> bool:
    """Whether the calling thread pickles objects for a process that is being started."""
    return get_spawning_popen() is not None


def for_starting_process(descriptor: int) -> Any:  # noqa: ANN401 - multiprocessing's own
    """An open file as a value that can be pickled for a process that is being started; see `descriptor_of`."""
    return reduction.DupFd(descriptor)


def descriptor_of(value: Any) -> int:  # noqa: ANN401 - multiprocessing's own
    """The descriptor of a value of `for_starting_process`, in the process that was started."""
    return int(value.detach())
