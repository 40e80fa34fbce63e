"""Python's fork server, which all tests of a process share, with the modules that a test's processes need."""

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext


def processes_with(*modules: str) -> ForkServerContext:
    """The context of a fork server that has imported these modules, so that its processes start in milliseconds.

    A server that another test has started without them would leave the import to each process: seconds of CPU time. It
    is replaced by one that imports what it had, and them.
    """
    server = forkserver._forkserver
    if missing := [module for module in modules if module not in server._preload_modules]:
        server._stop()
        multiprocessing.set_forkserver_preload([*server._preload_modules, *missing])
    return multiprocessing.get_context("forkserver")
