"""In a run of several partitions, each has events of its own: its data version, its inputs and its checks."""

# ruff: noqa: TID251

import hashlib

import dagster as dg
from dagster._core.definitions.data_version import get_input_data_version_tag, get_input_event_pointer_tag

from headrace_dagster.resources.dagster_internals.event_log import DATA_VERSION_TAG
from headrace_dagster.resources.dagster_internals.partition_events import (
    PartitionRecorder,
    evaluations,
    recorded_output,
)
from tests.support.instances import memory_instance

KEY, WHOLE, PARTS = dg.AssetKey("shards"), dg.AssetKey("catalog"), dg.AssetKey("recordings")


def test_a_materialization_has_the_versions_of_what_it_was_made_from():
    inputs = {WHOLE: ("7", {None: "version of all"}), PARTS: ("8", {"p": "1", "q": "2"})}
    recorder = PartitionRecorder(None, KEY, "code", inputs)
    made = dg.MaterializeResult(data_version=dg.DataVersion("new"), metadata={"n": 3}, tags={"own": "tag"})
    event = recorder.materialization("q", made)
    assert (event.asset_key, event.partition, event.metadata["n"].value) == (KEY, "q", 3)
    assert event.tags["own"] == "tag"
    assert event.tags[DATA_VERSION_TAG] == "new"
    assert event.tags[get_input_data_version_tag(WHOLE)] == "version of all"
    assert event.tags[get_input_data_version_tag(PARTS)] == hashlib.sha256(b"2").hexdigest()
    assert [event.tags[get_input_event_pointer_tag(key)] for key in (WHOLE, PARTS)] == ["7", "8"]
    assert DATA_VERSION_TAG not in recorder.materialization("p", dg.MaterializeResult()).tags


def test_results_of_checks_are_those_of_the_newest_materialization_of_their_partition():
    instance = memory_instance()
    results = [dg.AssetCheckResult(check_name="sound", passed=False, description="short")]
    (before,) = evaluations(instance, KEY, "p", results)
    assert before.target_materialization_data is None
    for partition in ("p", "p", "q"):
        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=partition))
    (after,) = evaluations(instance, KEY, "p", results)
    newest = instance.fetch_materializations(dg.AssetRecordsFilter(KEY, asset_partitions=["p"]), limit=1).records[0]
    assert after.target_materialization_data.storage_id == newest.storage_id
    assert (after.check_name, after.passed, after.partition, after.blocking) == ("sound", False, "p", True)


def test_the_output_of_a_step_whose_partitions_were_recorded_records_nothing():
    instance = memory_instance()

    @dg.asset
    def shards():
        return recorded_output()

    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    assert dg.materialize([shards], instance=instance, run_config=quiet).success
    assert instance.get_latest_materialization_event(KEY) is None
