"""Starts a Dagster code server as `dagster dev` does, and requests sensor ticks as the daemon does."""

# ruff: noqa: TID251

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import SensorExecutionArgs
from dagster._serdes import deserialize_value

_START_SECONDS = 60.0


@dataclass(frozen=True)
class CodeServer:
    """A running code server.

    Attributes:
        client: gRPC client of the server.
        origin: the repository that it serves.
        instance: the Dagster instance of its sensors.
        pid: id of its process.
    """

    client: DagsterGrpcClient
    origin: RemoteRepositoryOrigin
    instance: dg.DagsterInstance
    pid: int

    def tick(self, sensor: str, cursor: str | None) -> SensorExecutionData:
        """Request one tick of a sensor.

        Raises:
            RuntimeError: the sensor raised an error.
        """
        arguments = SensorExecutionArgs(
            repository_origin=self.origin, instance_ref=self.instance.get_ref(), sensor_name=sensor, cursor=cursor
        )
        answer = deserialize_value(self.client.external_sensor_execution(arguments))
        if not isinstance(answer, SensorExecutionData):
            raise RuntimeError(f"{sensor}: {answer}")  # noqa: TRY004 - the sensor's error, as a value
        return answer

    def forget_peak(self) -> None:
        """Reset `peak_mb`."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def resident_mb(self) -> float:
        """Resident memory now, in MB."""
        return self._memory_mb("VmRSS")

    def peak_mb(self) -> float:
        """Peak resident memory since the start or since `forget_peak`, in MB."""
        return self._memory_mb("VmHWM")

    def cpu_seconds(self) -> float:
        """Processor time of the server since its start, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory_mb(self, name: str) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


@contextlib.contextmanager
def code_server(
    instance: dg.DagsterInstance, target: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[CodeServer]:
    """Start a code server, and stop it at the end of the `with` block.

    Args:
        instance: the Dagster instance of its sensors.
        target: the definitions, as arguments of the command line: `--module-name`, `definitions`.
        environment: variables beside this process's own.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "dagster", "api", "grpc", "--host", "127.0.0.1", "--port", str(port), *target]
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        client = DagsterGrpcClient(host="127.0.0.1", port=port)
        _wait_for(client, process)
        location = GrpcServerCodeLocationOrigin("127.0.0.1", port=port, location_name="bench")
        yield CodeServer(client, RemoteRepositoryOrigin(location, "__repository__"), instance, process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_for(client: DagsterGrpcClient, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            client.ping("")
        except DagsterUserCodeUnreachableError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the code server did not start (exit status {process.poll()})") from error
            time.sleep(0.1)
        else:
            return
