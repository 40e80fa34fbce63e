"""The external asset NAME/recordings: one data version per partition, between the catalog and the partitioned shards.

It has no code to run. For every partition whose fingerprint in the catalog is new, the run of `catalog` reports an
observation (Dagster compares observations of an external asset for staleness) and a materialization (automation
conditions see only these). So one changed file makes one partition stale, not all of them.
"""

from collections.abc import Mapping

import dagster as dg

from headrace_dagster.assets.partitions import partitions_of
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.dagster_internals.event_log import DATA_VERSION_TAG, partition_versions


def recordings_asset(dataset: ProjectDataset) -> dg.AssetSpec:
    """The external asset."""
    config, keys = dataset.config, dataset.keys
    return dg.AssetSpec(
        keys.recordings,
        deps=[keys.catalog],
        partitions_def=partitions_of(config),
        group_name=config.name,
        owners=config.owners,
        kinds={"audio"},
        description="The recordings of each partition. The data version is their fingerprint in the catalog. "
        "Materializing `catalog` updates it for the partitions that changed.",
    )


def changed_partitions(
    instance: dg.DagsterInstance, key: dg.AssetKey, fingerprints: Mapping[str, str]
) -> list[dg.AssetObservation | dg.AssetMaterialization]:
    """Observations and materializations of the partitions whose fingerprint differs from the instance's last one.

    All observations come before all materializations. A run of `audio_shards` records the newest materialization of the
    whole asset as its input, and Dagster takes every later observation for a change of that input.
    """
    observed = partition_versions(instance, key, dg.DagsterEventType.ASSET_OBSERVATION)
    materialized = partition_versions(instance, key, dg.DagsterEventType.ASSET_MATERIALIZATION)
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
