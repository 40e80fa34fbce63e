"""NAME/<latents>/sizes_index: the snapshot of one set of latents, for one snapshot of the audio."""

import dagster as dg

from assets.events import INPUTS_TAG, OWNER, readable_failures, snapshot_inputs
from assets.gates import checks_of_latents, pass_shards
from assets.keys import DatasetKeys
from assets.metadata import snapshot_metadata
from headrace.commit import commit_latents
from headrace.config import DatasetConfig, LatentsConfig
from headrace.reconcile import latent_settings
from resources.storage import StorageResource


def latents_index_asset(config: DatasetConfig, latents: LatentsConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)
    shards = dg.AssetDep(keys.latent_shards(latents.name), partition_mapping=dg.AllPartitionMapping())

    @dg.asset(
        key=keys.latents_index(latents.name),
        deps=[shards, keys.sizes_index],
        group_name=config.name,
        owners=[OWNER],
        kinds={"json"},
        description="The committed snapshot of these latents and their `sizes.json`; it names the audio snapshot that "
        "they belong to. Fails, and names the partitions, while one is not encoded from it.",
    )
    def sizes_index(context: dg.AssetExecutionContext, storage: StorageResource) -> dg.MaterializeResult:
        pass_shards(
            context.instance,
            keys.latent_shards(latents.name),
            config.layout().partition_keys(),
            checks_of_latents(latents),
        )
        shards = storage.latents(config, latents.name)
        with readable_failures():
            committed, is_new = commit_latents(storage.audio(config), shards, latent_settings(latents))
        return dg.MaterializeResult(
            data_version=dg.DataVersion(committed.snapshot.fingerprint),
            metadata=snapshot_metadata(shards, committed, is_new=is_new),
            tags={INPUTS_TAG: snapshot_inputs(committed.snapshot)},
        )

    return sizes_index
