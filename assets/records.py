"""What the Dagster instance knows of a data set: the other half of "what is there" beside the output."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from assets.events import INPUTS_TAG, snapshot_inputs, versions_by_partition
from headrace.errors import NotFoundError
from headrace.manifests import KnownManifest
from headrace.reconcile import is_current
from headrace.snapshots import NumberedSnapshot, read_snapshot
from headrace.storage import Storage

_GOOD = AssetCheckExecutionRecordStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Records:
    """What an instance knows of the assets of a graph. An asset whose checks have not all passed counts as unknown.

    Attributes:
        instance: what is asked.
        checks: all asset checks of the graph.
    """

    instance: dg.DagsterInstance
    checks: Collection[dg.AssetCheckKey]

    def unrecorded(self, key: dg.AssetKey, manifests: Mapping[str, KnownManifest]) -> set[str]:
        """Partitions whose manifest is not known, or of whose checks one has not passed or never ran."""
        checks = self._checks_of(key)
        known = versions_by_partition(self.instance, key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        infos = self.instance.event_log_storage.get_asset_check_partition_info(checks)
        passed = {(info.check_key, info.partition_key) for info in infos if info.latest_execution_status == _GOOD}
        return {
            name
            for name, manifest in manifests.items()
            if known.get(name) != manifest.digest or not all((check, name) in passed for check in checks)
        }

    def is_made_from(self, key: dg.AssetKey, inputs: str) -> bool:
        """Whether the newest materialization of an asset was made from `inputs`."""
        event = self.instance.get_latest_materialization_event(key)
        materialization = event.asset_materialization if event else None
        if materialization is None or (materialization.tags or {}).get(INPUTS_TAG) != inputs:
            return False
        checks = self._checks_of(key)
        verdicts = self.instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
        return all(check in verdicts and verdicts[check].status == _GOOD for check in checks)

    def has_index(self, key: dg.AssetKey, newest: NumberedSnapshot) -> bool:
        """Whether a snapshot is known as the newest of its asset."""
        return self.is_made_from(key, snapshot_inputs(newest.snapshot))

    def _checks_of(self, key: dg.AssetKey) -> list[dg.AssetCheckKey]:
        return [check for check in self.checks if check.asset_key == key]


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
