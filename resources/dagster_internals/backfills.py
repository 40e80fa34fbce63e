"""The partitions that backfills under way have still to materialize.

Uses: `DagsterInstance.get_backfills` with `BulkActionsFilter`, and `PartitionBackfill.get_asset_backfill_data`.
Why: a sensor that looks at runs alone would start what a backfill is going to start a moment later.
Missing: the public interface has nothing about backfills except `BackfillPolicy`.
Fails first: tests/sensors/test_backfills.py.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import dagster as dg
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph  # noqa: TID251 - see above
from dagster._core.errors import DagsterDefinitionChangedDeserializationError  # noqa: TID251 - see above
from dagster._core.execution.backfill import (  # noqa: TID251 - see above
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)

AssetGraph: TypeAlias = BaseAssetGraph[Any]
"""Asset graph of a repository."""
_UNDER_WAY = BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])


def remaining_targets(instance: dg.DagsterInstance, graph: AssetGraph) -> Iterator[tuple[dg.AssetKey, str | None]]:
    """Asset and partition of everything that backfills under way have not materialized.

    What failed, and what depends on it, is left out: a backfill does not try it again.
    """
    for backfill in instance.get_backfills(filters=_UNDER_WAY):
        if backfill.is_asset_backfill:
            yield from _remaining(backfill, graph)


def _remaining(backfill: PartitionBackfill, graph: AssetGraph) -> Iterator[tuple[dg.AssetKey, str | None]]:
    try:
        data = backfill.get_asset_backfill_data(graph)
    except DagsterDefinitionChangedDeserializationError:  # Dagster ends such a backfill itself
        return
    left = data.target_subset - data.materialized_subset - data.failed_and_downstream_subset
    for target in left.iterate_asset_partitions():
        yield target.asset_key, target.partition_key
