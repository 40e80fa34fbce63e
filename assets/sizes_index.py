"""The asset NAME/sizes_index: commits the snapshot of all audio shards once every partition is built."""

import dagster as dg

from headrace.assemble.commit import commit_partitions
from headrace.assemble.drift import catalog_numbers
from headrace.assemble.reconcile import wanted_partitions
from headrace.assemble.stages import AUDIO
from headrace_dagster.assets.gates import pass_catalog, pass_shards
from headrace_dagster.assets.metadata import snapshot_metadata
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.snapshot_index import Committed, IndexEvents, index_asset
from headrace_dagster.assets.superseded import committed_unless_superseded
from headrace_dagster.resources.storage import StorageResource

_DESCRIPTION = (
    "The committed snapshot of all audio shards, and `sizes.json` in WebDataset's format. Fails, and names the "
    "partitions, while partitions are not built from the current catalog."
)


def sizes_index_asset(dataset: ProjectDataset) -> dg.AssetsDefinition:
    """The asset NAME/sizes_index of a data set."""
    config, keys = dataset.config, dataset.keys

    def commit(context: dg.AssetExecutionContext, stores: StorageResource) -> IndexEvents:
        from headrace.catalog.stored.storing import store_decode_rejects  # noqa: PLC0415 - polars: not in a code server

        yield from ()  # all checks of shards are of partitions
        pass_catalog(context.instance, keys.catalog)
        pass_shards(context.instance, keys.audio_shards, config.partitioning().partition_keys())
        audio = stores.audio(config)

        def committed() -> Committed:
            catalog = stores.catalog(config)
            wanted = wanted_partitions(catalog.header.fingerprints, config)
            made, is_new, manifests = commit_partitions(audio, wanted, catalog.header.digest)
            store_decode_rejects(catalog, manifests)
            numbers = catalog_numbers(catalog.header).to_dict()
            return Committed(made, {**snapshot_metadata(audio, made, is_new=is_new), **numbers})

        return committed_unless_superseded(context, config, stores.output(config), committed)

    return index_asset(dataset, AUDIO, commit, _DESCRIPTION)
