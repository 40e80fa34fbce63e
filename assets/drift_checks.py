"""Checks that warn when a catalog has drifted from what the last snapshots held. They hold nothing back."""

from collections.abc import Iterator

import dagster as dg

from assets.keys import DatasetKeys
from headrace.config import DatasetConfig
from headrace.drift import CatalogNumbers, catalog_numbers, duration_drift, hours_drift, rejected_drift
from resources.storage import StorageResource

_SNAPSHOTS = 5
_RECORDS = 50
_CHECKS = {
    "hours_drift": (hours_drift, "the length of all recordings is near that of the last snapshots"),
    "duration_drift": (duration_drift, "recordings are about as long as in the last snapshots"),
    "rejected_drift": (rejected_drift, "no larger share of the files is refused than in the last snapshots"),
}


def drift_checks(config: DatasetConfig) -> dg.AssetChecksDefinition:
    """The checks, made in one step after every scan."""
    keys = DatasetKeys(config.name)
    specs = [dg.AssetCheckSpec(name, asset=keys.catalog, description=text) for name, (_, text) in _CHECKS.items()]

    @dg.multi_asset_check(name=f"{config.name}__drift_checks", specs=specs)
    def checks(context: dg.AssetCheckExecutionContext, storage: StorageResource) -> Iterator[dg.AssetCheckResult]:
        now = catalog_numbers(storage.catalog(config))
        before = last_numbers(context.instance, keys.sizes_index)
        for name, (compare, _) in _CHECKS.items():
            faults = compare(now, before, config.drift)
            yield dg.AssetCheckResult(
                passed=not faults,
                severity=dg.AssetCheckSeverity.WARN,
                description="; ".join(faults) or None,
                metadata={"snapshots compared": len(before), **now.to_dict()},
                check_name=name,
                asset_key=keys.catalog,
            )

    return checks


def last_numbers(instance: dg.DagsterInstance, index: dg.AssetKey) -> list[CatalogNumbers]:
    """The numbers of the last few snapshots, newest first; each snapshot counts once."""
    found: dict[object, CatalogNumbers] = {}
    for record in instance.fetch_materializations(index, limit=_RECORDS).records:
        metadata = record.asset_materialization.metadata if record.asset_materialization else {}
        values = {name: metadata[name].value for name in CatalogNumbers.__slots__ if name in metadata}
        if "snapshot" in metadata and len(values) == len(CatalogNumbers.__slots__):
            found.setdefault(metadata["snapshot"].value, CatalogNumbers(**values))
    return list(found.values())[:_SNAPSHOTS]
