"""The asset NAME/<latents>_sizes_index: commits the snapshot of one set of latents for a snapshot of the audio."""

import dagster as dg

from headrace.assemble.centroids import with_centroids
from headrace.assemble.column_sets import rows_of_texts
from headrace.assemble.commit import commit_latents
from headrace.assemble.latent_rejections import newest_rejections
from headrace.assemble.reconcile import latent_settings
from headrace.assemble.stages import Stage, StageKind
from headrace.config.content import LatentsConfig
from headrace_dagster.assets.gates import checks_of_latents, pass_shards
from headrace_dagster.assets.metadata import snapshot_metadata
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.rejected_latents import is_too_much, rejected_check, rejected_verdict, too_many_rejected
from headrace_dagster.assets.snapshot_index import Committed, IndexEvents, index_asset
from headrace_dagster.assets.superseded import committed_unless_superseded
from headrace_dagster.resources.storage import StorageResource

_DESCRIPTION = (
    "The committed snapshot of these latents, and their `sizes.json`. The snapshot names the audio snapshot that the "
    "latents belong to. Fails, and names the partitions, while partitions are not encoded from that audio snapshot. "
    "Fails while too many samples have no latents (max_rejected)."
)


def latents_index_asset(dataset: ProjectDataset, latents: LatentsConfig) -> dg.AssetsDefinition:
    """The asset NAME/<latents>_sizes_index of a data set."""
    config, keys = dataset.config, dataset.keys
    key = keys.latents_index(latents.name)

    def commit(context: dg.AssetExecutionContext, stores: StorageResource) -> IndexEvents:
        partitions = config.partitioning().partition_keys()
        pass_shards(context.instance, keys.latent_shards(latents.name), partitions, checks_of_latents(latents))
        shards, audio, output = stores.latents(config, latents.name), stores.audio(config), stores.output(config)
        rejected = newest_rejections(shards, partitions)
        yield rejected_verdict(latents, key, rejected)
        if is_too_much(latents, rejected):
            raise too_many_rejected(latents, rejected)
        rows = rows_of_texts(output, config, latents)
        settings = latent_settings(with_centroids(latents, shards))
        made = committed_unless_superseded(
            context, config, output, lambda: commit_latents(audio, shards, settings, rows)
        )
        if made is None:
            return None
        committed, is_new = made
        numbers = {"rejected": len(rejected.refused)}
        return Committed(committed, {**snapshot_metadata(shards, committed, is_new=is_new), **numbers})

    stage = Stage(StageKind.LATENTS, latents.name)
    return index_asset(dataset, stage, commit, _DESCRIPTION, [rejected_check(latents, key)])
