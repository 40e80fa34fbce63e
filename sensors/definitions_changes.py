"""definitions_changes: a changed, new or removed YAML file takes effect without a click.

Dagster loads definitions once per code server. This sensor compares the files with what was loaded and asks the code
server that `dagster dev` and `dagster code-server start` run to load them again; where there is none it says so.
"""

import hashlib
import threading
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import dagster as dg
from dagster._grpc.client import DagsterGrpcClient

from headrace.config_folder import find_configs, yaml_files
from headrace.errors import ConfigError

_INTERVAL_SECONDS = 5
_RELOAD_SECONDS = 120


def folder_digest(folder: Path) -> str:
    """Digest of the YAML files of a folder."""
    digest = hashlib.sha256()
    for path in yaml_files(folder):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def definitions_changes_sensor(folder: Path) -> dg.SensorDefinition:
    """The sensor, which remembers the files as they are now."""
    loaded = folder_digest(folder)

    @dg.sensor(
        name="definitions_changes",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Loads the data sets' YAML files again when they change. A file that is wrong is not loaded; the "
        "tick says what is wrong with it.",
    )
    def definitions_changes(context: dg.SensorEvaluationContext) -> dg.SkipReason:  # noqa: ARG001 - Dagster's signature
        digest = folder_digest(folder)
        if faults := _faults(folder, digest):
            raise dg.Failure("not loaded: " + "\n".join(faults), allow_retries=False)
        if digest == loaded:
            return dg.SkipReason("no change")
        server = code_server()
        if server is None:
            return dg.SkipReason("the YAML files changed: press Reload in the UI (this code server cannot be asked to)")
        # In a thread: this server is replaced by the new one, and must answer this tick first.
        threading.Thread(target=server.reload_code, args=(_RELOAD_SECONDS,), daemon=True).start()
        return dg.SkipReason("the YAML files changed: loading them")

    return definitions_changes


@lru_cache(maxsize=1)
def _faults(folder: Path, digest: str) -> tuple[str, ...]:  # noqa: ARG001 - files of one digest are read once
    """What is wrong with the files of a folder."""
    try:
        return find_configs(folder).faults
    except ConfigError as error:
        return (str(error),)


def code_server() -> DagsterGrpcClient | None:
    """The reloadable server that this process serves, found by the command line of its parent; None without one."""
    try:
        parent = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1])
        words = Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, ValueError, IndexError):
        return None
    if "code-server" not in words:
        return None
    options = dict(pairwise(words))
    socket, port = options.get("--socket"), options.get("--port")
    if socket:
        return DagsterGrpcClient(socket=socket)
    return DagsterGrpcClient(port=int(port), host=options.get("--host", "localhost")) if port else None
