"""What the Dagster instance knows of a data set: the other half of "what is there" beside the output."""

from collections.abc import Mapping, Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from assets.events import INPUTS_TAG, snapshot_inputs, versions_by_partition
from headrace.errors import NotFoundError
from headrace.manifests import KnownManifest
from headrace.reconcile import is_current
from headrace.snapshots import NumberedSnapshot, read_snapshot
from headrace.storage import Storage

_GOOD = AssetCheckExecutionRecordStatus.SUCCEEDED


def unrecorded_partitions(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    checks: Sequence[dg.AssetCheckKey],
    manifests: Mapping[str, KnownManifest],
) -> set[str]:
    """Partitions whose manifest the instance does not know, or of whose checks one has not passed or never ran."""
    known = versions_by_partition(instance, key, dg.DagsterEventType.ASSET_MATERIALIZATION)
    records = instance.event_log_storage.get_asset_check_partition_info(list(checks))
    passed = {(record.check_key, record.partition_key) for record in records if record.latest_execution_status == _GOOD}
    return {
        name
        for name, manifest in manifests.items()
        if known.get(name) != manifest.digest or not all((check, name) in passed for check in checks)
    }


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


def newest_snapshot(storage: Storage) -> NumberedSnapshot | None:
    """The newest snapshot, or None."""
    try:
        return read_snapshot(storage)
    except NotFoundError:
        return None


def is_committed(
    newest: NumberedSnapshot | None,
    catalog: str,
    manifests: Mapping[str, KnownManifest],
    audio_snapshot: int | None = None,
) -> bool:
    """Whether the newest snapshot is the state that these manifests make.

    Args:
        newest: the newest snapshot of a shard folder.
        catalog: digest of the catalog that it should come from.
        manifests: what every partition of the layout holds now.
        audio_snapshot: for latents, the number of the audio snapshot that they should belong to.
    """
    return (
        newest is not None
        and is_current(newest.snapshot, catalog, manifests)
        and newest.snapshot.origin.get("audio_snapshot") == audio_snapshot
    )


def index_is_done(
    instance: dg.DagsterInstance, key: dg.AssetKey, checks: Sequence[dg.AssetCheckKey], newest: NumberedSnapshot
) -> bool:
    """Whether the instance knows a snapshot as the newest of its asset, checks passed."""
    return is_recorded(instance, key, checks, snapshot_inputs(newest.snapshot))
