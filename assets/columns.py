"""The assets NAME/<set>_columns and NAME/<set>_columns_index: columns beside the audio shards, and their snapshot."""

from collections.abc import Iterator

import dagster as dg

from headrace.assemble.column_sets import build_columns, commit_set, is_awaited
from headrace.assemble.partition_columns import ColumnSettings
from headrace.assemble.stages import Stage, StageKind
from headrace.config.content import METADATA_SET
from headrace_dagster.assets.build_comparison import unchecked
from headrace_dagster.assets.column_checks import column_check_results, column_check_specs
from headrace_dagster.assets.column_metadata import columns_index_metadata, columns_metadata
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.gates import pass_shards
from headrace_dagster.assets.partition_runs import PartitionEvent, backfill_policy_of, make_partitions
from headrace_dagster.assets.partitions import partitions_of
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.snapshot_index import Committed, IndexEvents, index_asset
from headrace_dagster.assets.superseded import committed_unless_superseded, while_audio_is_current
from headrace_dagster.assets.waiting import waiting, waiting_events
from headrace_dagster.resources.progress import BuildProgress
from headrace_dagster.resources.storage import StorageResource

_INDEX_DESCRIPTION = (
    "The committed snapshot of these columns, which names the audio snapshot that it fits, and a summary of each "
    "column. Fails, and names the partitions, while partitions are not joined to that audio snapshot."
)
_WHAT = {True: "The user's metadata and the facts of the catalog", False: "The table of these columns"}


def columns_asset(dataset: ProjectDataset, name: str) -> dg.AssetsDefinition:
    """The asset NAME/<set>_columns of a data set, partitioned."""
    config, keys = dataset.config, dataset.keys
    what = "What is computed from the audio" if config.feature(name) else _WHAT[name == METADATA_SET]

    @dg.asset(
        key=keys.columns(name),
        deps=[keys.audio_shards],
        partitions_def=partitions_of(config),
        backfill_policy=backfill_policy_of(config),
        output_required=False,  # without one, the run is superseded
        code_version=ColumnSettings().wanted("")[:16],
        group_name=config.name,
        owners=config.owners,
        kinds={"numpy"},
        description=f"{what}, joined to the samples: one file for each audio shard, with a row "
        "for each sample. Writes only files whose rows changed, and no tar.",
    )
    def columns(
        context: dg.AssetExecutionContext,
        headrace_storage: StorageResource,
        headrace_progress: dg.ResourceParam[BuildProgress],
    ) -> Iterator[PartitionEvent]:
        selected = context.run.asset_selection or ()
        with readable_failures():
            output = headrace_storage.output(config)
            waits = is_awaited(output, config, name)
        if waits:
            context.log.info("the optional table of the columns %s is not there yet", name)
            yield from make_partitions(context, keys.columns(name), lambda _: waiting([name]))
            return
        # In one run with the audio, its samples have been counted already.
        progress = (lambda _: None) if keys.audio_shards in selected else headrace_progress.built

        def make(partition: str) -> dg.MaterializeResult[None]:
            pass_shards(context.instance, keys.audio_shards, [partition])
            with readable_failures(), while_audio_is_current(context, config, keys, output, partition):
                build = build_columns(output, config, name, partition, progress)
            version = dg.DataVersion(build.manifest.digest)
            return dg.MaterializeResult(data_version=version, metadata=columns_metadata(build))

        yield from make_partitions(context, keys.columns(name), make)

    return columns


def columns_index_asset(dataset: ProjectDataset, name: str) -> dg.AssetsDefinition:
    """The asset NAME/<set>_columns_index of a data set."""
    config, key = dataset.config, dataset.keys.columns_index(name)
    joined = METADATA_SET if config.feature(name) else name  # the checks of tables are about no other sets
    checks = column_check_specs(joined, key)

    def commit(context: dg.AssetExecutionContext, stores: StorageResource) -> IndexEvents:
        output, storage = stores.output(config), stores.columns(config, name)
        if is_awaited(output, config, name):
            yield from waiting_events([name], checks)
            return None
        made = committed_unless_superseded(context, config, output, lambda: commit_set(output, name, config))
        if made is None:
            yield from unchecked(checks, "the run was superseded, and the next one checks what it makes")
            return None
        committed, is_new = made
        results = column_check_results(output, storage, committed.snapshot, joined, key)
        return Committed(committed, columns_index_metadata(storage, committed, is_new=is_new), results)

    return index_asset(dataset, Stage(StageKind.COLUMNS, name), commit, _INDEX_DESCRIPTION, checks)
