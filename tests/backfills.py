"""A backfill as the button *Materialize all* starts one, carried out by Dagster's own decisions, in this process."""

# ruff: noqa: TID251

import logging
from datetime import UTC, datetime

import dagster as dg
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView, TemporalContext
from dagster._core.execution.asset_backfill import AssetBackfillData, execute_asset_backfill_iteration_inner
from dagster._core.storage.tags import BACKFILL_ID_TAG
from dagster._core.test_utils import mock_workspace_from_repos

from tests.support.daemons import Made
from tests.support.projects import Graph

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def materialize_all(graph: Graph, backfill_id: str = "all") -> list[Made]:
    """Launch a backfill of every asset and partition, and execute its runs until none follows. Returns the runs."""
    assets = mock_workspace_from_repos([graph.definitions.get_repository_def()]).asset_graph
    now = datetime.now(UTC)
    data = AssetBackfillData.from_asset_partitions(
        asset_graph=assets,
        partition_names=None,
        asset_selection=sorted(assets.materializable_asset_keys),
        dynamic_partitions_store=graph.instance,
        backfill_start_timestamp=now.timestamp(),
        all_partitions=True,
    )
    made: list[Made] = []
    while True:
        last = graph.instance.event_log_storage.get_maximum_record_id()
        view = AssetGraphView(
            temporal_context=TemporalContext(effective_dt=now, last_event_id=last),
            instance=graph.instance,
            asset_graph=assets,
        )
        step = execute_asset_backfill_iteration_inner(
            backfill_id, data, view, now.timestamp(), logging.getLogger("backfill"), None
        )
        data = step.backfill_data.with_run_requests_submitted(step.run_requests, view)
        if not step.run_requests:
            return made
        made += [_execute(graph, request, backfill_id) for request in step.run_requests]


def _execute(graph: Graph, request: dg.RunRequest, backfill_id: str) -> Made:
    result = graph.job.execute_in_process(
        instance=graph.instance,
        asset_selection=list(request.asset_selection),
        partition_key=request.partition_key,
        tags={**request.tags, BACKFILL_ID_TAG: backfill_id},
        raise_on_error=False,
        run_config=_QUIET,
    )
    names = frozenset("/".join(key.path[1:]) for key in request.asset_selection)
    return Made(names, request.partition_key, result.success)
