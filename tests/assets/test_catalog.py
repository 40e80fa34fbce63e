"""The catalog is shown as late in the UI when the scheduled refresh did not happen."""

# ruff: noqa: TID251

import asyncio
from datetime import datetime, timedelta

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.definitions.freshness_evaluator import FRESHNESS_EVALUATORS_BY_POLICY_TYPE
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time

from tests.support.instances import memory_instance
from tests.support.projects import Project, assets_of

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.write_yaml()
    return project


def policies(project: Project) -> dict[str, dg.FreshnessPolicy]:
    """The freshness policies of a data set by asset."""
    graph = assets_of(project.config()).resolve_asset_graph()
    found = {"/".join(node.key.path[1:]): node.freshness_policy_or_from_metadata for node in graph.asset_nodes}
    return {name: policy for name, policy in found.items() if policy is not None}


def state(project: Project, instance: dg.DagsterInstance) -> FreshnessState:
    """State that the freshness daemon finds now."""
    node = assets_of(project.config()).resolve_asset_graph().get(project.keys.catalog)
    evaluator = FRESHNESS_EVALUATORS_BY_POLICY_TYPE[type(node.freshness_policy_or_from_metadata)]()
    return asyncio.run(evaluator.evaluate_freshness(context=LoadingContextForTest(instance), node=node))


@pytest.mark.parametrize(
    ("cron", "period"),
    [
        ("0 3 * * *", DAY),
        ("0 3 * * 0", 7 * DAY),
        ("0 */6 * * *", 6 * HOUR),
        ("0 3 * * 1-5", 3 * DAY),
    ],
)
def test_the_catalog_alone_has_a_policy_and_it_follows_the_refresh(project, cron, period):
    project.write_yaml(schedules={"refresh": {"cron": cron}})
    late = dg.FreshnessPolicy.time_window(warn_window=period + 2 * HOUR, fail_window=2 * period + 2 * HOUR)
    assert policies(project) == {"catalog": late}


def test_without_a_refresh_nothing_is_late(project):
    project.write_yaml(schedules={"refresh": {"cron": "0 3 * * *", "enabled": False}})
    assert policies(project) == {}


@pytest.mark.medium
def test_one_missed_refresh_warns_and_two_fail(project):
    instance = memory_instance()
    assert state(project, instance) == FreshnessState.UNKNOWN
    instance.report_runless_asset_event(dg.AssetMaterialization(project.keys.catalog))
    scanned = datetime.now().astimezone()
    states = {}
    for hours in (0, 25, 27, 49, 51):
        with freeze_time(scanned + hours * HOUR):
            states[hours] = state(project, instance).value
    assert states == {0: "PASS", 25: "PASS", 27: "WARN", 49: "WARN", 51: "FAIL"}
