"""Runs a real `dagster dev` (daemon, webserver, code server) in its own home, and queries it through GraphQL."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.ports import reserved_port

_RUNS = """{ runsOrError(limit: 1000) { ... on Runs { results {
  runId status creationTime assetSelection { path } tags { key value } } } } }"""
_HEALTH = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
_SENSOR = """query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { ... on Sensor {
  id sensorState { status ticks(limit: 1) { status } } } } }"""
_STOP_SENSOR = """mutation($id: String!) { stopSensor(id: $id) {
  __typename ... on PythonError { message } } }"""
_START_SENSOR = """mutation($s: SensorSelector!) { startSensor(sensorSelector: $s) {
  __typename ... on PythonError { message } } }"""
_FINISHED = {"SUCCESS", "FAILURE", "CANCELED"}


@dataclass(frozen=True)
class Run:
    """A run as returned by GraphQL."""

    run_id: str
    status: str
    assets: frozenset[str]
    partition: str | None

    @property
    def is_finished(self) -> bool:
        return self.status in _FINISHED


def _selector(sensor: str) -> dict[str, str]:
    return {"repositoryLocationName": "headrace", "repositoryName": "__repository__", "sensorName": sensor}


class DagsterDev:
    """A server over a folder of datasets. Its home is `folder/home`, with the repository's own `dagster.yaml`.

    `settings` is appended to that file, and `variables` are added to the environment.
    """

    def __init__(
        self, folder: Path, datasets: Path, settings: str = "", variables: Mapping[str, str] | None = None
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        ours = (REPOSITORY_ROOT / "dagster_home/dagster.yaml").read_text()
        (self.home / "dagster.yaml").write_text(ours + settings)
        self.log = folder / "dev.log"
        self.command = [str(Path(sys.executable).parent / "dagster"), "dev", "--workspace", "workspace.yaml"]
        self.place = REPOSITORY_ROOT
        self.environment = {
            **os.environ,
            **(variables or {}),
            "DAGSTER_HOME": str(self.home),
            "HEADRACE_DATASETS": str(datasets),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "DAGSTER_GRPC_TIMEOUT_SECONDS": "300",  # a busy machine takes longer than 60 s to start a run
        }
        self.port = 0
        self._process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start all processes and wait until the server answers."""
        with reserved_port() as self.port, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=self.place,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            self.wait(self._answers, 180, "the webserver to answer")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop all processes. SIGKILL simulates a power failure."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        self._process = None

    def query(self, text: str, **variables: object) -> dict:
        response = httpx.post(f"{self.url}/graphql", json={"query": text, "variables": variables}, timeout=120)
        response.raise_for_status()
        return response.json()["data"]

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        found = self.query(_RUNS)["runsOrError"]["results"]
        return [
            Run(
                run["runId"],
                run["status"],
                frozenset("/".join(key["path"][1:]) for key in run["assetSelection"] or []),
                next((tag["value"] for tag in run["tags"] if tag["key"] == "dagster/partition"), None),
            )
            for run in sorted(found, key=lambda run: run["creationTime"])
        ]

    @contextlib.contextmanager
    def paused(self, sensor: str) -> Iterator[None]:
        """While this context is open, the sensor starts nothing."""
        self.stop_sensor(sensor)
        try:
            yield
        finally:
            self.query(_START_SENSOR, s=_selector(sensor))

    def stop_sensor(self, name: str) -> None:
        """Stop a sensor until it stays stopped: a tick in progress writes back the state that it began with."""
        for _ in range(2):
            self.wait(lambda: self._is_stopped(name), 60, f"{name} to be stopped")
            time.sleep(6)  # a round of the daemon, which may have begun before
        self.wait(lambda: self._is_stopped(name), 60, f"{name} to be stopped")

    def _is_stopped(self, name: str) -> bool:
        """Whether a sensor is stopped and has no tick in progress; else it is stopped."""
        sensor = self.query(_SENSOR, s=_selector(name))["sensorOrError"]
        if any(tick["status"] == "STARTED" for tick in sensor["sensorState"]["ticks"]):
            return False
        if sensor["sensorState"]["status"] == "STOPPED":
            return True
        answer = self.query(_STOP_SENSOR, id=sensor["id"])["stopSensor"]
        assert answer["__typename"] == "StopSensorMutationResult", answer
        return False

    def unhealthy(self) -> list[str]:
        """Daemons that should run but do not."""
        found = self.query(_HEALTH)["instance"]["daemonHealth"]["allDaemonStatuses"]
        return [daemon["daemonType"] for daemon in found if daemon["required"] and not daemon["healthy"]]

    def wait(self, is_so: Callable[[], bool], seconds: float, what: str) -> float:
        """Wait until a condition holds. Returns the seconds it took.

        Fails with the end of the server's log after `seconds` in which no run began or ended: a busy machine may take
        as long as it needs.
        """
        began = time.monotonic()
        last_change, known = began, self._statuses()
        while not is_so():
            if time.monotonic() - last_change > seconds:
                statuses = self._statuses()
                if statuses == known:
                    raise AssertionError(f"waited {seconds} s for {what}\n{statuses}\n{self.log.read_text()[-4000:]}")
                last_change, known = time.monotonic(), statuses
            time.sleep(0.2)
        return time.monotonic() - began

    def _statuses(self) -> list[tuple[str, str]] | None:
        """All runs and their states; None while no server answers."""
        try:
            return [(run.run_id, run.status) for run in self.runs()]
        except httpx.HTTPError:
            return None

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"dagster dev ended\n{self.log.read_text()[-4000:]}")
        try:
            return httpx.get(f"{self.url}/server_info", timeout=5).status_code == 200
        except httpx.TransportError:
            return False
