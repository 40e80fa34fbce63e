"""Reads from the Dagster instance what it has recorded of a data set, to compare it with the output."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import dagster as dg

from headrace.assemble.reconcile import is_current
from headrace.errors import NotFoundError
from headrace.format.manifests.manifests import KnownManifest
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot
from headrace.stores.storage import Storage
from headrace_dagster.assets.events import INPUTS_TAG, snapshot_inputs
from headrace_dagster.assets.regression_checks import REGRESSION_CHECKS
from headrace_dagster.resources.dagster_internals.event_log import (
    CheckResult,
    check_results,
    partition_check_results,
    partition_versions,
)


@dataclass(frozen=True, slots=True)
class AssetRecords:
    """Records that an instance has of the assets of a graph.

    An asset whose checks have not all passed counts as not recorded. A check that only warns counts as passed.

    Attributes:
        instance: the Dagster instance.
        checks: all asset checks of the graph.
    """

    instance: dg.DagsterInstance
    checks: Collection[dg.AssetCheckKey]

    def unrecorded(self, key: dg.AssetKey, manifests: Mapping[str, KnownManifest]) -> set[str]:
        """Partitions whose manifest is not recorded, or that have a check which has not passed or never ran."""
        checks = self._checks_of(key)
        known = partition_versions(self.instance, key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        results = partition_check_results(self.instance, checks)
        passed = {check for check, result in results.items() if result is CheckResult.PASSED}
        return {
            name
            for name, manifest in manifests.items()
            if known.get(name) != manifest.digest or not all((check, name) in passed for check in checks)
        }

    def is_made_from(self, key: dg.AssetKey, inputs: str) -> bool:
        """Whether the newest materialization of an asset was made from `inputs`."""
        event = self.instance.get_latest_materialization_event(key)
        materialization = event.asset_materialization if event else None
        is_of = materialization is not None and (materialization.tags or {}).get(INPUTS_TAG) == inputs
        return is_of and self._has_passed(key)

    def has_index(self, key: dg.AssetKey, newest: NumberedSnapshot) -> bool:
        """Whether the newest materialization of an asset is this snapshot."""
        return self.is_made_from(key, snapshot_inputs(newest.snapshot))

    def sound_since(self, key: dg.AssetKey) -> float:
        """When an asset was materialized last, seconds since 1970; 0 if never, or if a check of it has not passed."""
        event = self.instance.get_latest_materialization_event(key)
        return event.timestamp if event and self._has_passed(key) else 0.0

    def last_run(self, key: dg.AssetKey) -> str:
        """The id of the run that materialized an asset last; empty if none did."""
        event = self.instance.get_latest_materialization_event(key)
        return event.run_id if event else ""

    def _has_passed(self, key: dg.AssetKey) -> bool:
        checks = self._checks_of(key)
        results = check_results(self.instance, checks)
        return all(results.get(check) in {CheckResult.PASSED, CheckResult.WARNED} for check in checks)

    def _checks_of(self, key: dg.AssetKey) -> list[dg.AssetCheckKey]:
        return [check for check in self.checks if check.asset_key == key and check.name not in REGRESSION_CHECKS]


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
    """Whether the newest snapshot has exactly these manifests.

    Args:
        newest: the newest snapshot of a shard folder.
        catalog: digest of the catalog that the snapshot should be made from.
        manifests: the current manifest of every partition of the layout.
        audio_snapshot: for latents, the number of the audio snapshot that they should belong to.
    """
    return (
        newest is not None
        and is_current(newest.snapshot, catalog, manifests)
        and newest.snapshot.origin.get("audio_snapshot") == audio_snapshot
    )
