"""Asks the code server that runs this process to load its definitions again.

Uses: `DagsterGrpcClient.reload_code`, and the command line of `dagster code-server start`, which starts the process
that evaluates sensors as its child.
Why: a changed YAML file takes effect without a click on Reload in the UI.
Missing: a public call that reloads a code location from inside of it. `dagster-graphql` needs the address of a
webserver, which a sensor does not know.
Fails first: `test_the_code_server_is_found_by_the_command_line_of_the_parent_process`
(tests/resources/dagster_internals/test_code_server.py), and with a real server tests/live/test_live.py.
"""

import os
import subprocess
from itertools import pairwise
from pathlib import Path

from dagster._grpc.client import DagsterGrpcClient  # noqa: TID251 - see above

_PROC = Path("/proc")


def code_server() -> DagsterGrpcClient | None:
    """The reloadable server that this process belongs to, found by the command line of its parent; None without one."""
    words = _parents_words()
    if "code-server" not in words:
        return None
    options = dict(pairwise(words))
    socket, port = options.get("--socket"), options.get("--port")
    if socket:
        return DagsterGrpcClient(socket=socket)
    return DagsterGrpcClient(port=int(port), host=options.get("--host", "localhost")) if port else None


def _parents_words() -> list[str]:
    """The command line of the parent process; empty if the system does not show it."""
    try:
        return (_PROC / str(os.getppid()) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # not Linux
        command = ["ps", "-ww", "-o", "command=", "-p", str(os.getppid())]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 - ours
    except OSError:
        return []
