"""*Materialize all* on a running server, with the sensors switched off: an empty instance, then deleted recordings."""

import pytest

from tests.support.live import DagsterDev
from tests.support.projects import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]
ASSETS = """{ assetNodes { assetKey { path } isMaterializable isPartitioned staleStatus } }"""
PARTITIONS = """query($keys: [AssetKeyInput!]!) { assetNodes(assetKeys: $keys) {
  assetKey { path } staleStatusByPartition } }"""
SENSORS = """{ sensorsOrError(repositorySelector: {repositoryLocationName: "headrace",
  repositoryName: "__repository__"}) {
  ... on Sensors { results { name id sensorState { selectorId } } } } }"""
STOP = "mutation($id: String!) { stopSensor(id: $id) { __typename ... on PythonError { message } } }"
BACKFILL = """mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
STATUS = """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status } } }"""


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.write_tones(6)
    project.write_yaml(latents=LATENTS, shards={"samples_per_shard": 2, "partitions": {"train": 1, "test": 1}})
    return project


@pytest.fixture
def server(project):
    server = DagsterDev(project.folder, project.datasets, variables={"HEADRACE_ALERTS_WEBHOOK": ""})
    server.start()
    try:
        for sensor in server.query(SENSORS)["sensorsOrError"]["results"]:
            stopped = server.query(STOP, id=sensor["id"])["stopSensor"]
            assert stopped["__typename"] == "StopSensorMutationResult", stopped
        yield server
    finally:
        server.stop()


def materialize_all(server, partitions):
    nodes = server.query(ASSETS)["assetNodes"]
    keys = [node["assetKey"] for node in nodes if node["isMaterializable"]]
    begun = server.query(BACKFILL, p={"assetSelection": keys, "partitionNames": partitions, "fromFailure": False})
    backfill = begun["launchPartitionBackfill"]
    assert backfill["__typename"] == "LaunchBackfillSuccess", backfill

    def status():
        return server.query(STATUS, id=backfill["backfillId"])["partitionBackfillOrError"]["status"]

    server.wait(lambda: status().startswith("COMPLETED") or status() == "FAILED", 900, "the end of the backfill")
    assert status() == "COMPLETED_SUCCESS", [run for run in server.runs() if run.status != "SUCCESS"]


def not_fresh(server):
    """Assets that the interface does not show as fresh; only those with partitions are asked for their partitions."""
    nodes = server.query(ASSETS)["assetNodes"]
    keys = [{"path": node["assetKey"]["path"]} for node in nodes if node["isPartitioned"]]
    parts = server.query(PARTITIONS, keys=keys)["assetNodes"]
    found = [(node, [node["staleStatus"]]) for node in nodes if not node["isPartitioned"]]
    found += [(node, node["staleStatusByPartition"]) for node in parts]
    return [(node["assetKey"]["path"][-1], states) for node, states in found if set(states) != {"FRESH"}]


def test_it_ends_in_success_with_every_asset_fresh(server, project):
    partitions = project.config().partitioning().partition_keys()
    known = {run.run_id for run in server.runs()}  # those that sensors began before they were stopped
    server.wait(lambda: all(run.is_finished for run in server.runs()), 300, "the end of the first runs")
    materialize_all(server, partitions)
    assert not_fresh(server) == []
    for number in range(4):
        (project.recordings / f"tone{number:03d}.wav").unlink()
    materialize_all(server, partitions)
    assert not_fresh(server) == []
    assert sum(project.sizes().values()) == 2
    assert all(run.status == "SUCCESS" for run in server.runs() if run.run_id not in known)
