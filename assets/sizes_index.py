"""The asset NAME/sizes_index: commits the snapshot of all audio shards once every partition is built."""

from collections.abc import Iterator

import dagster as dg

from headrace.assemble.commit import commit_partitions
from headrace.assemble.drift import catalog_numbers
from headrace.assemble.reconcile import wanted_partitions
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, snapshot_inputs
from headrace_dagster.assets.gates import pass_catalog, pass_shards
from headrace_dagster.assets.metadata import Metadata, snapshot_metadata
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.superseded import committed_unless_superseded
from headrace_dagster.resources.storage import StorageResource


def sizes_index_asset(dataset: ProjectDataset) -> dg.AssetsDefinition:
    """The asset NAME/sizes_index of a data set."""
    config, keys = dataset.config, dataset.keys

    @dg.asset(
        key=keys.sizes_index,
        deps=[dg.AssetDep(keys.audio_shards, partition_mapping=dg.AllPartitionMapping())],
        output_required=False,  # without one, the run is superseded
        group_name=config.name,
        owners=config.owners,
        kinds={"json"},
        description="The committed snapshot of all audio shards, and `sizes.json` in WebDataset's format. Fails, and "
        "names the partitions, while partitions are not built from the current catalog.",
    )
    def sizes_index(
        context: dg.AssetExecutionContext, headrace_storage: StorageResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        from headrace.catalog.stored.storing import store_decode_rejects  # noqa: PLC0415 - polars: not in a code server

        pass_catalog(context.instance, keys.catalog)
        pass_shards(context.instance, keys.audio_shards, config.partitioning().partition_keys())
        audio, output = headrace_storage.audio(config), headrace_storage.output(config)

        def commit() -> tuple[NumberedSnapshot, Metadata]:
            catalog = headrace_storage.catalog(config)
            wanted = wanted_partitions(catalog.header.fingerprints, config)
            committed, is_new, manifests = commit_partitions(audio, wanted, catalog.header.digest)
            store_decode_rejects(catalog, manifests)
            numbers = catalog_numbers(catalog.header).to_dict()
            return committed, {**snapshot_metadata(audio, committed, is_new=is_new), **numbers}

        with readable_failures():
            made = committed_unless_superseded(context, config, output, commit)
        if made is None:
            return
        committed, metadata = made
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(committed.snapshot.fingerprint),
            metadata=metadata,
            tags={INPUTS_TAG: snapshot_inputs(committed.snapshot)},
        )

    return sizes_index
