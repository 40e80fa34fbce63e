"""A real server and daemon: what a person sees and starts in the UI, asked over its GraphQL."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.projects import Project

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

STALENESS = """
query($key: AssetKeyInput!, $partition: String!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode { staleStatus(partition: $partition) } }
}"""
LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}"""
STATUS = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
PARTITIONS = ["train-0000", "train-0001", "train-0002", "test-0000"]


class Server:
    """`dagster dev` over one project."""

    def __init__(self, project: Project) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        home = project.folder / "home"
        home.mkdir()
        (home / "dagster.yaml").write_bytes((ROOT / "dagster_home/dagster.yaml").read_bytes())
        environment = {**os.environ, "DAGSTER_HOME": str(home), "HEADRACE_DATASETS": str(project.datasets)}
        words = ["dev", "--workspace", "workspace.yaml", "--host", "127.0.0.1", "--port", str(port)]
        self.log = (project.folder / "server.log").open("wb")
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "dagster"), *words],
            cwd=ROOT,
            env=environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.url = f"http://127.0.0.1:{port}"

    def wait(self) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/server_info", timeout=2).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.3)
        raise TimeoutError(Path(self.log.name).read_text()[-2000:])

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()

    def ask(self, query: str, **variables: object) -> dict:
        answer = httpx.post(f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=60).json()
        assert "errors" not in answer, answer
        return answer["data"]

    def materialize(self, asset: str, partition: str | None = None) -> str:
        """Launch a run as the UI does, wait for its end, and say how it ended."""
        selector = {
            "repositoryLocationName": "headrace",
            "repositoryName": "__repository__",
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": ["tones", asset]}],
        }
        tags = [{"key": "dagster/partition", "value": partition}] if partition else []
        params = {"selector": selector, "mode": "default", "runConfigData": {}, "executionMetadata": {"tags": tags}}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            status = self.ask(STATUS, id=launched["run"]["runId"])["runOrError"]["status"]
            if status in {"SUCCESS", "FAILURE", "CANCELED"}:
                return status
            time.sleep(0.3)
        raise TimeoutError(asset)

    def stale(self) -> list[str]:
        """Partitions of the audio shards that the UI shows as stale or missing."""
        key = {"path": ["tones", "audio_shards"]}
        found = {name: self.ask(STALENESS, key=key, partition=name)["assetNodeOrError"] for name in PARTITIONS}
        return [name for name, node in found.items() if node["staleStatus"] != "FRESH"]


@pytest.fixture
def server(tmp_path):
    project = Project(tmp_path)
    project.write_tones(10)
    project.write_yaml()
    server = Server(project)
    server.project = project
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def test_materializing_the_catalog_in_the_ui_makes_just_the_changed_partition_stale(server):
    assert server.materialize("catalog") == "SUCCESS"
    assert server.stale() == PARTITIONS
    for partition in PARTITIONS:
        assert server.materialize("audio_shards", partition) == "SUCCESS"
    assert server.stale() == []
    assert server.materialize("sizes_index") == "SUCCESS"
    server.project.write_tone("tone004", hz=999)
    assert server.materialize("catalog") == "SUCCESS"
    stale = server.stale()
    assert len(stale) == 1
    assert server.materialize("sizes_index") == "FAILURE"
    assert server.materialize("audio_shards", stale[0]) == "SUCCESS"
    assert server.stale() == []
    assert server.materialize("sizes_index") == "SUCCESS"
    log = Path(server.log.name).read_text()
    ours = [line for line in log.splitlines() if "Warning" in line and str(ROOT) in line and ".venv" not in line]
    assert ours == []
