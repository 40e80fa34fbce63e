"""definitions_changes: a changed, new or removed YAML file takes effect without a click.

Dagster loads definitions once per code server. This sensor compares the files with what was loaded and asks the code
server that `dagster dev` and `dagster code-server start` run to load them again; where there is none it says so.
A wrong file keeps no other from being loaded.
"""

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import dagster as dg
from dagster._grpc.client import DagsterGrpcClient

from headrace.config import DatasetConfig
from headrace.config_folder import yaml_files
from sensors.loaded import configs_now

_INTERVAL_SECONDS = 5
_RELOAD_SECONDS = 120
_PROC = Path("/proc")


def definitions_changes_sensor(folder: Path, configs: Sequence[DatasetConfig]) -> dg.SensorDefinition:
    """The sensor.

    Args:
        folder: the YAML files.
        configs: the data sets that were loaded of them.
    """
    loaded = {config.name: config for config in configs}
    told: set[tuple[str, ...]] = set()

    @dg.sensor(
        name="definitions_changes",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Loads the data sets' YAML files again when they change. A file that is wrong is not loaded; the "
        "tick says what is wrong with it, and fails when it is seen for the first time.",
    )
    def definitions_changes(context: dg.SensorEvaluationContext) -> dg.SkipReason:  # noqa: ARG001 - Dagster's signature
        found, faults = configs_now(folder)
        if _differs(found, loaded, folder):
            return dg.SkipReason(_reload())
        if not faults:
            return dg.SkipReason("no change")
        reason = "not loaded: " + "\n".join(faults)
        if faults in told:  # a failed tick is kept for a month
            return dg.SkipReason(reason)
        told.add(faults)
        raise dg.Failure(reason, allow_retries=False)

    return definitions_changes


def _differs(found: Mapping[str, DatasetConfig], loaded: Mapping[str, DatasetConfig], folder: Path) -> bool:
    """Whether there is something to load, or to let go. A loaded file that is wrong now stays as it was loaded."""
    files = {path.stem for path in yaml_files(folder)} if folder.is_dir() else loaded.keys()
    return any(loaded.get(name) != config for name, config in found.items()) or not loaded.keys() <= files


def _reload() -> str:
    """Ask the code server to load the files. Returns what the tick says."""
    server = code_server()
    if server is None:
        return "the YAML files changed: press Reload in the UI (this code server cannot be asked to)"
    # In a thread: this server is replaced by the new one, and must answer this tick first.
    threading.Thread(target=server.reload_code, args=(_RELOAD_SECONDS,), daemon=True).start()
    return "the YAML files changed: loading them"


def code_server() -> DagsterGrpcClient | None:
    """The reloadable server that this process serves, found by the command line of its parent; None without one."""
    words = _parents_words()
    if "code-server" not in words:
        return None
    options = dict(pairwise(words))
    socket, port = options.get("--socket"), options.get("--port")
    if socket:
        return DagsterGrpcClient(socket=socket)
    return DagsterGrpcClient(port=int(port), host=options.get("--host", "localhost")) if port else None


def _parents_words() -> list[str]:
    """The command line that the parent of this process was started with; nothing where it cannot be asked for."""
    try:
        return (_PROC / str(os.getppid()) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # no Linux
        command = ["ps", "-ww", "-o", "command=", "-p", str(os.getppid())]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 - ours
    except OSError:
        return []
