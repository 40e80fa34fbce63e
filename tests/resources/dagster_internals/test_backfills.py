"""Targets that a backfill under way has still to materialize, without those that failed."""

# ruff: noqa: TID251

from types import SimpleNamespace

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.errors import DagsterDefinitionChangedDeserializationError

from headrace_dagster.resources.dagster_internals.backfills import remaining_targets

PARTITIONS = dg.StaticPartitionsDefinition(["p", "q", "r", "s"])
SHARDS, CATALOG = dg.AssetKey("shards"), dg.AssetKey("catalog")


def subset(*partitions, catalog=False):
    parts = {SHARDS: PARTITIONS.subset_with_partition_keys(partitions)} if partitions else {}
    return AssetGraphSubset(
        partitions_subsets_by_asset_key=parts, non_partitioned_asset_keys={CATALOG} if catalog else set()
    )


class Backfill:
    is_asset_backfill = True

    def __init__(self, target, materialized, failed):
        self.data = SimpleNamespace(
            target_subset=target, materialized_subset=materialized, failed_and_downstream_subset=failed
        )

    def get_asset_backfill_data(self, graph):
        if self.data.target_subset is None:
            raise DagsterDefinitionChangedDeserializationError
        return self.data


def test_what_is_made_or_failed_is_left_out_and_other_backfills_are_ignored():
    under_way = Backfill(subset("p", "q", "r", catalog=True), subset("p"), subset("q"))
    changed = Backfill(None, None, None)
    instance = SimpleNamespace(
        get_backfills=lambda filters: [SimpleNamespace(is_asset_backfill=False), changed, under_way]
    )
    assert set(remaining_targets(instance, None)) == {(SHARDS, "r"), (CATALOG, None)}
