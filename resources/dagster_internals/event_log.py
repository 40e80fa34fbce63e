"""The last result of each asset check, and the last data version of each partition, by one query each.

Uses: `DagsterInstance.event_log_storage` and its methods `get_latest_asset_check_execution_by_key`,
`get_asset_check_partition_info`, `get_asset_check_execution_history`, `get_latest_tags_by_partition` and
`free_concurrency_slots_for_run`; the enum `AssetCheckExecutionRecordStatus` and `PartitionKeyFilter`.
Why: the sensors ask about all partitions of all data sets at every tick, and a check asks for its previous result.
Missing: the public interface has no query for results of asset checks, and none for the data versions of partitions
(`fetch_materializations` returns whole events, one partition's newest one at a time). No public call frees the pool
slots of a run.
Fails first: tests/sensors/test_sensors.py; for results of checks, tests/sensors/test_failures.py.
"""

import enum
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import dagster as dg
from dagster._core.event_api import PartitionKeyFilter  # noqa: TID251 - see above
from dagster._core.storage.asset_check_execution_record import (  # noqa: TID251 - see above
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

DATA_VERSION_TAG = "dagster/data_version"


class CheckResult(enum.Enum):
    """Result of the last execution of an asset check."""

    PASSED = "passed"
    WARNED = "warned"
    """Not passed, with severity WARN."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Planned, and not executed so far."""


_RESULTS = {
    AssetCheckExecutionRecordStatus.SUCCEEDED: CheckResult.PASSED,
    AssetCheckExecutionRecordStatus.FAILED: CheckResult.FAILED,
}


def check_results(
    instance: dg.DagsterInstance, checks: Collection[dg.AssetCheckKey]
) -> Mapping[dg.AssetCheckKey, CheckResult]:
    """The last result of each of these checks that was ever planned."""
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    return {check: _result(record) for check, record in records.items()}


def partition_check_results(
    instance: dg.DagsterInstance, checks: Collection[dg.AssetCheckKey], only: Sequence[str] | None = None
) -> Mapping[tuple[dg.AssetCheckKey, str], CheckResult]:
    """The last result of each of these checks of partitioned assets, by check and partition. WARNED reads as FAILED.

    With `only`, those of these partitions, which cost the same however many others there are.
    """
    infos = instance.event_log_storage.get_asset_check_partition_info(list(checks), partition_keys=only)
    return {
        (info.check_key, str(info.partition_key)): _RESULTS.get(info.latest_execution_status, CheckResult.UNKNOWN)
        for info in infos
    }


def partitions_checked_by(instance: dg.DagsterInstance, checks: Collection[dg.AssetCheckKey], run_id: str) -> set[str]:
    """The partitions for which a run has made all of these checks."""
    infos = instance.event_log_storage.get_asset_check_partition_info(list(checks))
    made = Counter(
        str(info.partition_key)
        for info in infos
        if info.latest_planned_run_id == run_id and info.latest_execution_status in _RESULTS
    )
    return {partition for partition, count in made.items() if count == len(checks)}


def result_before(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, partition: str, run_id: str
) -> CheckResult | None:
    """The last result of a check of a partition before a run, which has planned it already; None without one."""
    history = instance.event_log_storage.get_asset_check_execution_history(
        check, limit=2, partition_filter=PartitionKeyFilter(key=partition)
    )
    return next((_result(record) for record in history if record.run_id != run_id), None)


def _result(record: AssetCheckExecutionRecord) -> CheckResult:
    result = _RESULTS.get(record.status, CheckResult.UNKNOWN)
    evaluation = record.evaluation if result is CheckResult.FAILED else None
    is_warning = evaluation is not None and evaluation.severity == dg.AssetCheckSeverity.WARN
    return CheckResult.WARNED if is_warning else result


def partition_versions(instance: dg.DagsterInstance, key: dg.AssetKey, kind: dg.DagsterEventType) -> dict[str, str]:
    """The last data version of every partition of an asset, from its materializations or its observations."""
    found = instance.event_log_storage.get_latest_tags_by_partition(key, kind, [DATA_VERSION_TAG])
    return {partition: tags[DATA_VERSION_TAG] for partition, tags in found.items() if DATA_VERSION_TAG in tags}


def free_pool_slots(instance: dg.DagsterInstance, run_id: str) -> None:
    """Free the slots of pools that a run holds or waits for."""
    instance.event_log_storage.free_concurrency_slots_for_run(run_id)
