"""What the Dagster instance knows of a data set: the other half of "what is there" beside the output."""

from collections.abc import Mapping, Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from assets.events import INPUTS_TAG, versions_by_partition
from headrace.manifests import NumberedManifest

_GOOD = AssetCheckExecutionRecordStatus.SUCCEEDED


def unrecorded_partitions(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    checks: Sequence[dg.AssetCheckKey],
    manifests: Mapping[str, NumberedManifest],
) -> set[str]:
    """Partitions whose manifest the instance does not know, or whose checks did not pass or never came to an end."""
    known = versions_by_partition(instance, key, dg.DagsterEventType.ASSET_MATERIALIZATION)
    records = instance.event_log_storage.get_asset_check_partition_info(list(checks))
    failed = {
        record.partition_key for record in records if record.latest_execution_status != _GOOD and record.partition_key
    }
    return failed | {name for name, numbered in manifests.items() if known.get(name) != numbered.manifest.digest}


def is_recorded(
    instance: dg.DagsterInstance, key: dg.AssetKey, checks: Sequence[dg.AssetCheckKey], inputs: str
) -> bool:
    """Whether the newest materialization of an asset was made from `inputs` and its checks passed."""
    event = instance.get_latest_materialization_event(key)
    materialization = event.asset_materialization if event else None
    if materialization is None or (materialization.tags or {}).get(INPUTS_TAG) != inputs:
        return False
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    return all(check in records and records[check].status == _GOOD for check in checks)
