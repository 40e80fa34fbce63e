"""NAME/recordings: what the catalog says of each partition, between the one catalog and the partitioned shards.

Nothing runs here. The asset is external; the run of `catalog` reports, for every partition whose fingerprint is no
longer the one that the instance knows, an observation (Dagster compares those of an external asset for staleness) and a
materialization (automation conditions hear only those). So one changed file makes one partition stale, not all.
"""

from collections.abc import Mapping

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


def news(
    instance: dg.DagsterInstance, key: dg.AssetKey, fingerprints: Mapping[str, str]
) -> list[dg.AssetObservation | dg.AssetMaterialization]:
    """The events that bring an instance up to date with a catalog; none where it knows everything.

    All observations come before all materializations: a run of `audio_shards` remembers, as what it was built from, the
    newest materialization of the whole asset, and Dagster then takes every later observation for a change.
    """
    observed = versions_by_partition(instance, key, dg.DagsterEventType.ASSET_OBSERVATION)
    materialized = versions_by_partition(instance, key, dg.DagsterEventType.ASSET_MATERIALIZATION)
    tags = {partition: {DATA_VERSION_TAG: digest} for partition, digest in fingerprints.items()}
    return [
        *(dg.AssetObservation(key, partition=name, tags=tags[name]) for name in _unlike(observed, fingerprints)),
        *(
            dg.AssetMaterialization(key, partition=name, tags=tags[name])
            for name in _unlike(materialized, fingerprints)
        ),
    ]


def _unlike(known: Mapping[str, str], fingerprints: Mapping[str, str]) -> list[str]:
    return [partition for partition, digest in fingerprints.items() if known.get(partition) != digest]
