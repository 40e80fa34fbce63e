"""NAME/recordings: what the catalog says of each partition, between the one catalog and the partitioned shards.

Nothing runs here. The asset is external; the run of `catalog` reports, for every partition whose fingerprint is no
longer the one that the instance knows, an observation (Dagster compares those of an external asset for staleness) and a
materialization (automation conditions hear only those). So one changed file makes one partition stale, not all.
"""

from collections.abc import Iterator, Mapping

import dagster as dg

from assets.events import DATA_VERSION_TAG, OWNER, versions_by_partition
from assets.keys import DatasetKeys
from assets.partitions import partitions_of
from headrace.config import DatasetConfig


def recordings_asset(config: DatasetConfig) -> dg.AssetSpec:
    """The external asset."""
    keys = DatasetKeys(config.name)
    return dg.AssetSpec(
        keys.recordings,
        deps=[keys.catalog],
        partitions_def=partitions_of(config),
        group_name=config.name,
        owners=[OWNER],
        kinds={"audio"},
        description="The recordings of each partition. The data version is their fingerprint in the catalog; "
        "materializing `catalog` updates it for just the partitions that changed.",
    )


def changed_partitions(
    instance: dg.DagsterInstance, key: dg.AssetKey, fingerprints: Mapping[str, str]
) -> dict[str, str]:
    """The fingerprints that the instance does not know yet."""
    known = versions_by_partition(instance, key, dg.DagsterEventType.ASSET_OBSERVATION)
    return {partition: digest for partition, digest in fingerprints.items() if known.get(partition) != digest}


def events_of(key: dg.AssetKey, changed: Mapping[str, str]) -> Iterator[dg.AssetObservation | dg.AssetMaterialization]:
    """What to report of changed partitions."""
    for partition, digest in changed.items():
        tags = {DATA_VERSION_TAG: digest}
        yield dg.AssetMaterialization(key, partition=partition, tags=tags)
        yield dg.AssetObservation(key, partition=partition, tags=tags)
