"""The assets that commit the snapshots of a stage (`DatasetKeys.index`), once every partition is built."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import dagster as dg

from headrace.assemble.stages import AUDIO, Stage
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, snapshot_inputs
from headrace_dagster.assets.metadata import Metadata
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource


@dataclass(frozen=True, slots=True)
class Committed:
    """The snapshot that an asset committed or found, with what the materialization says of it."""

    numbered: NumberedSnapshot
    metadata: Metadata
    checks: Sequence[dg.AssetCheckResult] = ()


IndexEvents: TypeAlias = Generator[dg.AssetCheckResult | dg.MaterializeResult[None], None, Committed | None]
"""Results of checks that are known before the commit, and what a waiting index records.

Returns None if the run is superseded, or the index waits for an optional table.
"""


def index_asset(
    dataset: ProjectDataset,
    stage: Stage,
    commit: Callable[[dg.AssetExecutionContext, StorageResource], IndexEvents],
    description: str,
    check_specs: Sequence[dg.AssetCheckSpec] = (),
) -> dg.AssetsDefinition:
    """The asset that commits the snapshot of a stage.

    Args:
        dataset: the data set.
        stage: whose shards.
        commit: does it.
        description: of the asset.
        check_specs: its checks.
    """
    config, keys = dataset.config, dataset.keys
    shards = dg.AssetDep(keys.shards(stage), partition_mapping=dg.AllPartitionMapping())

    @dg.asset(
        key=keys.index(stage),
        check_specs=check_specs,
        deps=[shards] if stage == AUDIO else [shards, keys.sizes_index],
        output_required=False,  # without one, the run is superseded
        group_name=config.name,
        owners=config.owners,
        kinds={"json"},
        description=description,
    )
    def index(context: dg.AssetExecutionContext, headrace_storage: StorageResource) -> IndexEvents:
        with readable_failures():
            made = yield from commit(context, headrace_storage)
        if made is not None:
            yield dg.MaterializeResult(
                data_version=dg.DataVersion(made.numbered.snapshot.fingerprint),
                metadata=made.metadata,
                tags={INPUTS_TAG: snapshot_inputs(made.numbered.snapshot)},
                check_results=made.checks,
            )
        return None

    return index
