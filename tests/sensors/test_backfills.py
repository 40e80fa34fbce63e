"""A backfill started in the UI and the sensors never do the same work twice."""

# ruff: noqa: TID251

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count, partitions_made
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]
LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]
PARTITIONED = ("audio_shards", "metadata_columns", "mel_latent_shards")
LAST = ("sizes_index", "metadata_columns_index", "mel_sizes_index", "loader_smoke_test", "dataset_report")
EVERYTHING = (*PARTITIONED, *LAST)


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("backfills"))
    project.write_tones(6)
    project.write_yaml(latents=LATENTS, shards={"samples_per_shard": 4, "partitions": {"train": 2, "test": 1}})
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    """All recordings have changed, and the source has been scanned again."""
    daemon = settled.put_back()
    for i in range(6):
        daemon.project.write_tone(f"tone{i:03d}", hz=500 + i)
    (scan,) = daemon.tick("source_changes")
    assert daemon.run(scan).success
    return daemon


class Backfill:
    """A backfill of some assets in all partitions, as the UI starts one; each step is what Dagster's daemon does."""

    def __init__(self, daemon: Daemon, names=EVERYTHING) -> None:
        self.daemon = daemon
        self.partitions = daemon.config.partitioning().partition_keys()
        self.keys = [dg.AssetKey(["tones", name]) for name in names]
        graph = daemon.definitions.resolve_asset_graph()
        self.record = PartitionBackfill.from_asset_partitions(
            backfill_id="by-hand",
            asset_graph=graph,
            partition_names=None,
            asset_selection=self.keys,
            backfill_timestamp=1_800_000_000.0,
            tags={},
            dynamic_partitions_store=daemon.instance,
            all_partitions=True,
            title=None,
            description=None,
            run_config=None,
        )
        daemon.instance.add_backfill(self.record)

    def run(self, names, partition=None, *, is_noted=True):
        """One run of it, whose end it notes at its next look."""
        keys = [dg.AssetKey(["tones", name]) for name in names]
        made = self.daemon.run(dg.RunRequest(asset_selection=keys, partition_key=partition))
        if is_noted:
            self._note("materialized_subset", keys, partition)
        return made

    def fail(self, names, partition=None):
        self._note("failed_and_downstream_subset", [dg.AssetKey(["tones", name]) for name in names], partition)

    def end(self, status=BulkActionStatus.COMPLETED_SUCCESS):
        self._keep(self.record._replace(status=status))

    def _note(self, field, keys, partition):
        data = self.record.asset_backfill_data
        targets = {key: data.target_subset.get_asset_subset(key).value for key in keys}
        done = (
            AssetGraphSubset(non_partitioned_asset_keys=set(keys))
            if partition is None
            else AssetGraphSubset(
                {key: value.empty_subset().with_partition_keys([partition]) for key, value in targets.items()}
            )
        )
        self._keep(self.record._replace(asset_backfill_data=data._replace(**{field: getattr(data, field) | done})))

    def _keep(self, record):
        self.record = record
        self.daemon.instance.update_backfill(record)


def test_without_a_backfill_the_sensor_makes_what_is_stale_and_closes_once(daemon):
    made = daemon.settle()
    assert sorted(partitions_made(made)) == sorted(daemon.config.partitioning().partition_keys())
    assert [count(made, name) for name in LAST] == [1] * len(LAST)


def test_a_backfill_of_everything_closes_alone(daemon):
    """Between its runs, when none is at work, the sensor starts nothing; once it has ended nothing is left to do."""
    backfill = Backfill(daemon)
    made = []
    for partition in backfill.partitions:
        assert daemon.settle() == []
        made.append(backfill.run(PARTITIONED, partition, is_noted=False))
        assert daemon.settle() == []
        backfill._note("materialized_subset", backfill.keys[:3], partition)
    assert daemon.settle() == []
    assert "running" in daemon.reasons["stale_partitions"]
    made.append(backfill.run(["sizes_index"]))
    assert daemon.settle() == []
    made.append(backfill.run(LAST[1:]))
    backfill.end()
    assert daemon.settle() == []
    assert daemon.reasons["stale_partitions"] == "up to date"
    assert all(run.success for run in made)


def test_after_a_backfill_the_sensor_builds_the_rest_once(daemon):
    backfill = Backfill(daemon, PARTITIONED)
    for partition in backfill.partitions:
        assert daemon.settle() == []
        backfill.run(PARTITIONED, partition)
    made = daemon.settle()  # all of its partitions are done, though it is not ended yet
    assert partitions_made(made) == []
    assert [count(made, name) for name in LAST] == [1] * len(LAST)
    backfill.end()
    assert daemon.settle() == []


@pytest.mark.parametrize("how", ["failed", "canceled"])
def test_after_a_backfill_gave_up_the_sensor_takes_over(daemon, how):
    backfill = Backfill(daemon)
    first, *others = backfill.partitions
    backfill.run(PARTITIONED, first)
    if how == "canceled":
        backfill.end(BulkActionStatus.CANCELING)
    else:
        for partition in others:
            backfill.fail(PARTITIONED, partition)
        backfill.fail(LAST)
    made = daemon.settle()
    assert sorted(partitions_made(made)) == sorted(others)
    assert [count(made, name) for name in LAST] == [1] * len(LAST)


def test_a_scan_of_a_backfill_is_not_started_twice(settled):
    daemon = settled.put_back()
    daemon.project.write_tone("tone000", hz=700)
    backfill = Backfill(daemon, ("catalog",))
    assert daemon.tick("source_changes") == []
    assert daemon.reasons["source_changes"] == "a scan is in progress"
    backfill.run(["catalog"])
    backfill.end()
    made = daemon.settle()
    assert count(made, "catalog") == 0
    assert len(partitions_made(made)) == 1
