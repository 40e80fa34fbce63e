"""Asset checks that warn when a new catalog differs much from the last snapshots. They block nothing."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from headrace.assemble.drift import CatalogNumbers, catalog_numbers, duration_drift, hours_drift, rejected_drift
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource

_SNAPSHOTS = 5
_RECORDS = 50
_CHECKS = {
    "hours_drift": (hours_drift, "there is not much more audio than in the last snapshots"),
    "duration_drift": (duration_drift, "recordings are about as long as in the last snapshots"),
    "rejected_drift": (rejected_drift, "the share of rejected files is not larger than in the last snapshots"),
}


def drift_checks(dataset: ProjectDataset) -> dg.AssetChecksDefinition:
    """The drift checks of a data set, which run in one step after every scan."""
    config, keys = dataset.config, dataset.keys
    specs = [dg.AssetCheckSpec(name, asset=keys.catalog, description=text) for name, (_, text) in _CHECKS.items()]

    @dg.multi_asset_check(name=f"{config.name}__drift_checks", specs=specs)
    def checks(
        context: dg.AssetCheckExecutionContext, headrace_storage: StorageResource
    ) -> Iterator[dg.AssetCheckResult]:
        with readable_failures():
            now = catalog_numbers(headrace_storage.catalog(config).header)
        before = last_numbers(context.instance, keys.sizes_index)
        for name, (compare, _) in _CHECKS.items():
            faults = compare(now, before, config.drift)
            yield dg.AssetCheckResult(
                passed=not faults,
                severity=dg.AssetCheckSeverity.WARN,
                description="; ".join(faults) or None,
                metadata={"snapshots_compared": len(before), **now.to_dict()},
                check_name=name,
                asset_key=keys.catalog,
            )

    return checks


def last_numbers(instance: dg.DagsterInstance, index: dg.AssetKey) -> list[CatalogNumbers]:
    """The numbers of the last few snapshots, newest first; each snapshot counts once."""
    found: dict[object, CatalogNumbers] = {}
    for record in instance.fetch_materializations(index, limit=_RECORDS).records:
        metadata = record.asset_materialization.metadata if record.asset_materialization else {}
        values: dict[str, Any] = {name: metadata[name].value for name in CatalogNumbers.__slots__ if name in metadata}
        if "snapshot" in metadata and len(values) == len(CatalogNumbers.__slots__):
            found.setdefault(metadata["snapshot"].value, CatalogNumbers(**values))
    return list(found.values())[:_SNAPSHOTS]
