"""Runs functions in child processes, so that a test can observe crashes, hangs and memory use.

The processes are forked from a server that has imported everything, so each starts in milliseconds and shares no
threads with the test. The functions must be in a module that can be imported there: `works`.
"""

import multiprocessing
import os
import pickle
import re
import resource
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from headrace.errors import HeadraceError
from tests.support.fork_server import processes_with


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a function that ran in a child process.

    Attributes:
        value: return value of the function.
        error: "NameOfError: message" of the `HeadraceError` that ended it; empty without one.
        grown_bytes: peak memory beyond the memory at its start.
    """

    value: object = None
    error: str = ""
    grown_bytes: int = 0

    def well(self) -> object:
        """The value, for functions that must not end with an error."""
        assert not self.error, self.error
        return self.value


class Apart:
    """A child process that runs a function."""

    def __init__(self, work: Callable[..., object], *args: object, memory_bytes: int | None = None) -> None:
        self._what = f"{work.__name__}{args}"
        self._began = time.monotonic()
        context = processes_with("tests.support.drills.works")
        self._here, there = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_do, args=(there, dict(os.environ), memory_bytes, work, *args), daemon=False
        )
        self.process.start()
        there.close()

    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self.process.is_alive()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the process. Returns whether it has ended."""
        self.process.join(seconds)
        return not self.process.is_alive()

    def kill(self) -> bool:
        """End the process with SIGKILL. Returns whether it was still running."""
        self.process.kill()
        self.process.join()
        self._here.close()
        return self.process.exitcode == -signal.SIGKILL

    def done(self, seconds: float = 120.0) -> Done:
        """Wait for the end of the process.

        Raises:
            AssertionError: the process hangs, crashed, or raised an error that is not a `HeadraceError`.
        """
        if not self._here.poll(max(0.0, seconds - (time.monotonic() - self._began))):
            self.kill()
            raise AssertionError(f"{self._what}: hangs, {seconds} s are over")
        try:
            kind, content = pickle.loads(self._here.recv_bytes())
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise AssertionError(f"{self._what}: crashed, {name}") from None
        finally:
            self.process.join(10)
            self._here.close()
        assert kind == "done", f"{self._what}: {content}"
        return content


def apart(work: Callable[..., object], *args: object, seconds: float = 120.0, memory_bytes: int | None = None) -> Done:
    """Run a function in a child process and wait for its end; see `Apart.done`."""
    return Apart(work, *args, memory_bytes=memory_bytes).done(seconds)


def _do(
    pipe: Connection, environment: dict[str, str], memory_bytes: int | None, work: Callable[..., object], *args: object
) -> None:
    os.environ.clear()  # the server has that of the moment when it was started
    os.environ.update(environment)
    multiprocessing.set_start_method("fork", force=True)  # as in a user's process: else each loader starts a server
    if memory_bytes is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far was the server's
    before = _peak_bytes()
    try:
        answer = ("done", Done(work(*args), grown_bytes=_peak_bytes() - before))
    except HeadraceError as error:
        answer = ("done", Done(error=f"{type(error).__name__}: {error}", grown_bytes=_peak_bytes() - before))
    except BaseException:  # noqa: BLE001 - the process that waits raises it
        answer = ("failed", traceback.format_exc())
    pipe.send_bytes(pickle.dumps(answer))
    pipe.close()


def _peak_bytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024
