"""The sensor `headrace_definitions_changes`: loads changed, new and removed YAML files without a click on Reload.

Dagster loads definitions once per code server. This sensor compares the files with what was loaded, and asks the code
server of `dagster dev` or `dagster code-server start` to load them again. Without such a server, the tick asks for a
click on Reload. An invalid file does not keep the others from being loaded.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg

from headrace.alerts.alerts import Alert, send
from headrace.config.dataset import DatasetConfig
from headrace.config.folder import yaml_files
from headrace.config.operation import AlertsConfig
from headrace_dagster.resources.dagster_internals.code_server import code_server
from headrace_dagster.sensors.loaded import DatasetFolder

_INTERVAL_SECONDS = 5
_RELOAD_SECONDS = 120


def definitions_changes_sensor(folder: DatasetFolder, configs: Sequence[DatasetConfig]) -> dg.SensorDefinition:
    """The sensor.

    Args:
        folder: the YAML files.
        configs: the data sets that were loaded from them.
    """
    loaded = {config.name: config for config in configs}
    logged: set[str] = set()

    @dg.sensor(
        name="headrace_definitions_changes",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Loads the data sets' YAML files again when they change. An invalid file is not loaded: the tick "
        "shows its error. When it sees that error for the first time, it fails and sends an alert.",
    )
    def definitions_changes(context: dg.SensorEvaluationContext) -> dg.SkipReason:  # noqa: ARG001 - Dagster's signature
        found, invalid = folder.configs_now()
        if _differs(found, loaded, folder.path):
            return dg.SkipReason(_reload())
        if not invalid:
            return dg.SkipReason("no change")
        reason = "not loaded: " + "\n".join(invalid.values())
        new = {path: fault for path, fault in invalid.items() if fault not in logged}
        if not new:  # a failed tick is kept for a month
            return dg.SkipReason(reason)
        logged.update(new.values())
        for path, fault in new.items():
            config = loaded.get(path.stem)
            recipients = config.alerts if config else AlertsConfig()
            send(Alert(path.stem, f"not loaded: {path.name} is invalid", fault), recipients, os.environ)
        raise dg.Failure(reason, allow_retries=False)

    return definitions_changes


def _differs(found: Mapping[str, DatasetConfig], loaded: Mapping[str, DatasetConfig], folder: Path) -> bool:
    """Whether files were added, changed or removed. A loaded file that is invalid now stays as it was loaded."""
    files = {path.stem for path in yaml_files(folder)} if folder.is_dir() else loaded.keys()
    return any(loaded.get(name) != config for name, config in found.items()) or not loaded.keys() <= files


def _reload() -> str:
    """Ask the code server to load the files. Returns the message of the tick."""
    server = code_server()
    if server is None:
        return "the YAML files changed: press Reload in the UI (this code server cannot be asked to)"
    # In a thread: this server is replaced by the new one, and must answer this tick first.
    threading.Thread(target=server.reload_code, args=(_RELOAD_SECONDS,), daemon=True).start()
    return "the YAML files changed: loading them"
