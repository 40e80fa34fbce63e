"""A running Dagster server builds several partitions in a run: its sensors, and backfills started in the interface."""

import time

import pytest

from tests.support.live import DagsterDev
from tests.support.projects import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

LAYOUT = [f"train-{i:04d}" for i in range(8)]
BAD = "train-0002"
ASSETS = ["audio_shards", "metadata_columns"]
ENDED = {"SUCCESS", "FAILURE"}
RUNS = """{ runsOrError(limit: 1000) { ... on Runs { results {
  runId status assetSelection { path } tags { key value } } } } }"""
LAUNCH = """mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
  ... on LaunchBackfillSuccess { backfillId } } }"""
BACKFILL = """query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill {
  status assetBackfillData { assetBackfillStatuses { ... on AssetPartitionsStatusCounts {
    assetKey { path } numPartitionsMaterialized numPartitionsFailed } } } } } }"""


class Live:
    """A data set of eight tiny partitions, four to a run, with a server over it."""

    def __init__(self, folder) -> None:
        self.project = Project(folder)
        self.project.write_tones(24)
        self.project.write_yaml(
            splits={"train": 1.0},
            shards={"samples_per_shard": 4, "partitions": {"train": 8}},
            runs={"partitions_per_run": 4},
        )
        self.server = DagsterDev(folder, self.project.datasets)

    def runs(self) -> list[tuple[str, str, set[str], tuple[str | None, str | None]]]:
        """Id, status, assets, and first and last partition of all runs."""
        found = []
        for run in self.server.query(RUNS)["runsOrError"]["results"]:
            tags = {tag["key"]: tag["value"] for tag in run["tags"]}
            ends = [tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end")]
            assets = {key["path"][-1] for key in run["assetSelection"] or []}
            found.append((run["runId"], run["status"], assets, (ends[0], ends[1])))
        return found

    def is_quiet(self) -> bool:
        runs = self.runs()
        return any("dataset_report" in assets for _, _, assets, _ in runs) and all(
            status in ENDED for _, status, _, _ in runs
        )

    def backfill(self):
        """Build all partitions again. Returns the status, by asset the partitions made and failed, and the runs."""
        known = {run_id for run_id, *_ in self.runs()}
        target = {"assetSelection": [{"path": ["tones", name]} for name in ASSETS], "partitionNames": LAYOUT}
        backfill = self.server.query(LAUNCH, p=target)["launchPartitionBackfill"]["backfillId"]

        def state():
            return self.server.query(BACKFILL, id=backfill)["partitionBackfillOrError"]

        self.server.wait(lambda: state()["status"] != "REQUESTED", 300, "the end of the backfill")
        ended = state()
        counts = {
            found["assetKey"]["path"][-1]: (found["numPartitionsMaterialized"], found["numPartitionsFailed"])
            for found in ended["assetBackfillData"]["assetBackfillStatuses"]
        }
        return ended["status"], counts, [run for run in self.runs() if run[0] not in known]

    def stop_sensors(self) -> None:
        """Stop the sensors, and wait for what they have begun: a scan rejects recordings that are damaged later."""
        for sensor in ("tones_source_changes", "tones_stale_partitions"):
            self.server.stop_sensor(sensor)
        self.server.wait(lambda: all(status in ENDED for _, status, *_ in self.runs()), 120, "the end of runs")

    def break_partition(self) -> None:
        """Remove the shards of a partition, and damage the recordings from which they are made."""
        lost = [path for path in self.project.recordings.iterdir() if self.project.partition_of(path.name) == BAD]
        for path in lost:
            path.write_bytes(b"RIFF" + bytes(200))
        for shard in (self.project.output / "audio").glob(f"{BAD.replace('-', '_')}_*"):
            shard.unlink()


@pytest.fixture
def live(tmp_path):
    live = Live(tmp_path)
    live.server.start()
    yield live
    live.server.stop()


def test_sensors_and_backfills_start_runs_of_several_partitions(live):
    halves = {(LAYOUT[0], LAYOUT[3]), (LAYOUT[4], LAYOUT[7])}
    live.server.wait(live.is_quiet, 300, "the first build")
    time.sleep(8)  # two rounds of the sensors
    built = [(status, ends) for _, status, assets, ends in live.runs() if set(ASSETS) <= assets]
    assert sorted(built) == sorted(("SUCCESS", ends) for ends in halves)

    status, counts, runs = live.backfill()
    assert (status, counts) == ("COMPLETED_SUCCESS", dict.fromkeys(ASSETS, (8, 0)))
    assert {(status, ends) for _, status, _, ends in runs} == {("SUCCESS", ends) for ends in halves}

    live.stop_sensors()
    live.break_partition()
    status, counts, runs = live.backfill()
    assert (status, counts["audio_shards"]) == ("COMPLETED_FAILED", (7, 1))
    assert sorted(status for _, status, _, _ in runs) == ["FAILURE", "SUCCESS"]
