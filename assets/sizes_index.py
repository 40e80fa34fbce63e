"""NAME/sizes_index: the snapshot that all partitions make together, committed once every one is built."""

import dagster as dg

from assets.events import INPUTS_TAG, OWNER, readable_failures, snapshot_inputs
from assets.gates import pass_catalog, pass_shards
from assets.keys import DatasetKeys
from assets.metadata import snapshot_metadata
from headrace.commit import commit_partitions
from headrace.config import DatasetConfig
from headrace.drift import catalog_numbers
from headrace.reconcile import wanted_partitions
from resources.storage import StorageResource


def sizes_index_asset(config: DatasetConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)

    @dg.asset(
        key=keys.sizes_index,
        deps=[dg.AssetDep(keys.audio_shards, partition_mapping=dg.AllPartitionMapping())],
        group_name=config.name,
        owners=[OWNER],
        kinds={"json"},
        description="The committed snapshot of all audio shards, and `sizes.json` as WebDataset knows it. Fails, and "
        "names the partitions, while one is not built from the current catalog.",
    )
    def sizes_index(context: dg.AssetExecutionContext, storage: StorageResource) -> dg.MaterializeResult:
        from headrace.catalog_partitions import partition_fingerprints  # noqa: PLC0415 - polars: not in a code server
        from headrace.catalog_update import store_refusals  # noqa: PLC0415 - likewise

        pass_catalog(context.instance, keys.catalog)
        pass_shards(context.instance, keys.audio_shards, config.layout().partition_keys())
        audio = storage.audio(config)
        with readable_failures():
            catalog = storage.catalog(config)
            wanted = wanted_partitions(partition_fingerprints(catalog.recordings, config), config)
            committed, is_new, manifests = commit_partitions(audio, wanted, catalog.digest)
            store_refusals(storage.output(config), catalog, manifests, config)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(committed.snapshot.fingerprint),
            metadata={
                **snapshot_metadata(audio, committed, is_new=is_new),
                **catalog_numbers(catalog).to_dict(),
            },
            tags={INPUTS_TAG: snapshot_inputs(committed.snapshot)},
        )

    return sizes_index
