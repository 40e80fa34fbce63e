"""definitions_changes: a changed, new or removed YAML file takes effect without a click.

Dagster loads definitions once per code server. This sensor compares the files with what was loaded and asks the code
server that `dagster dev` and `dagster code-server start` run to load them again; where there is none it says so.
A wrong file keeps no other from being loaded.
"""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import dagster as dg
from dagster._grpc.client import DagsterGrpcClient

from headrace.config import DatasetConfig
from headrace.config_folder import find_configs, yaml_files
from headrace.errors import ConfigError

_INTERVAL_SECONDS = 5
_RELOAD_SECONDS = 120


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
        found, faults = _found(folder, folder_digest(folder))
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


def folder_digest(folder: Path) -> str:
    """Digest of the YAML files of a folder."""
    digest = hashlib.sha256()
    for path in yaml_files(folder):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


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


@lru_cache(maxsize=1)
def _found(folder: Path, digest: str) -> tuple[dict[str, DatasetConfig], tuple[str, ...]]:  # noqa: ARG001 - its files
    """The data sets of a folder by name, and what is wrong with the other files; files of one digest are read once."""
    try:
        found = find_configs(folder)
    except ConfigError as error:
        return {}, (str(error),)
    return {config.name: config for config in found.configs}, found.faults


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
