"""The asset NAME/<latents>_sizes_index: commits the snapshot of one set of latents for a snapshot of the audio."""

from collections.abc import Iterator

import dagster as dg

from headrace.assemble.centroids import with_centroids
from headrace.assemble.column_sets import rows_of_texts
from headrace.assemble.commit import commit_latents
from headrace.assemble.latent_rejections import newest_rejections
from headrace.assemble.reconcile import latent_settings
from headrace.config.content import LatentsConfig
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, snapshot_inputs
from headrace_dagster.assets.gates import checks_of_latents, pass_shards
from headrace_dagster.assets.metadata import snapshot_metadata
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.rejected_latents import is_too_much, rejected_check, rejected_verdict, too_many_rejected
from headrace_dagster.assets.superseded import committed_unless_superseded
from headrace_dagster.resources.storage import StorageResource


def latents_index_asset(dataset: ProjectDataset, latents: LatentsConfig) -> dg.AssetsDefinition:
    """The asset NAME/<latents>_sizes_index of a data set."""
    config, keys = dataset.config, dataset.keys
    key = keys.latents_index(latents.name)
    shards = dg.AssetDep(keys.latent_shards(latents.name), partition_mapping=dg.AllPartitionMapping())

    @dg.asset(
        key=key,
        check_specs=[rejected_check(latents, key)],
        deps=[shards, keys.sizes_index],
        output_required=False,  # without one, the run is superseded
        group_name=config.name,
        owners=config.owners,
        kinds={"json"},
        description="The committed snapshot of these latents, and their `sizes.json`. The snapshot names the audio "
        "snapshot that the latents belong to. Fails, and names the partitions, while partitions are not encoded from "
        "that audio snapshot. Fails while too many samples have no latents (max_rejected).",
    )
    def sizes_index(
        context: dg.AssetExecutionContext, headrace_storage: StorageResource
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        partitions = config.partitioning().partition_keys()
        pass_shards(context.instance, keys.latent_shards(latents.name), partitions, checks_of_latents(latents))
        shards = headrace_storage.latents(config, latents.name)
        with readable_failures():
            rejected = newest_rejections(shards, partitions)
        yield rejected_verdict(latents, key, rejected)
        if is_too_much(latents, rejected):
            raise too_many_rejected(latents, rejected)
        audio, output = headrace_storage.audio(config), headrace_storage.output(config)
        with readable_failures():
            rows = rows_of_texts(output, config, latents)
            settings = latent_settings(with_centroids(latents, shards))
            made = committed_unless_superseded(
                context, config, output, lambda: commit_latents(audio, shards, settings, rows)
            )
        if made is None:
            return
        committed, is_new = made
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(committed.snapshot.fingerprint),
            metadata={**snapshot_metadata(shards, committed, is_new=is_new), "rejected": len(rejected.refused)},
            tags={INPUTS_TAG: snapshot_inputs(committed.snapshot)},
        )

    return sizes_index
