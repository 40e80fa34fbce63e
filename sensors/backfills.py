"""The runs that backfills started in the UI are still going to make.

A backfill creates the runs of its partitions a few at a time, and what depends on all partitions at the end. A sensor
that looked at runs alone would start the same work beside the backfill.
"""

import dagster as dg

from headrace_dagster.resources.dagster_internals.backfills import AssetGraph, remaining_targets
from headrace_dagster.sensors.activity import ActiveRun


def graph_of(context: dg.SensorEvaluationContext) -> AssetGraph:
    """The asset graph of the code location that a sensor is part of."""
    assert context.repository_def is not None  # the daemon gives it to every tick
    return context.repository_def.asset_graph


def pending_runs(instance: dg.DagsterInstance, graph: AssetGraph) -> list[ActiveRun]:
    """One run in progress for each asset and partition that backfills under way have still to materialize.

    What failed, or depends on what failed, is not among them. The runs count as having begun infinitely long ago.
    """
    return [
        ActiveRun(frozenset({key}), () if partition is None else (partition,), float("inf"))
        for key, partition in remaining_targets(instance, graph)
    ]
