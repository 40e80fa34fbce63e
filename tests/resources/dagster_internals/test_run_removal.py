"""A removed run leaves the last result of each check, and nothing else."""

# ruff: noqa: TID251

import dagster as dg
import pytest
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable as Checks

from headrace_dagster.resources.dagster_internals.event_log import CheckResult, check_results
from headrace_dagster.resources.dagster_internals.run_removal import remove_run
from tests.support.instances import memory_instance

KEY = dg.AssetKey("a")
CHECK = dg.AssetCheckKey(KEY, "sound")


def rows(instance):
    with instance.event_log_storage.index_connection() as connection:
        return [tuple(row) for row in connection.execute(Checks.select().with_only_columns(Checks.c.run_id))]


@pytest.mark.medium
def test_results_that_a_later_run_replaced_go_with_their_run():
    instance = memory_instance()

    @dg.asset(name="a", check_specs=[dg.AssetCheckSpec("sound", asset="a")])
    def a():
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=True)])

    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    first, second = (dg.materialize([a], instance=instance, run_config=quiet).run_id for _ in range(2))
    assert {run for (run,) in rows(instance)} == {first, second}
    remove_run(instance, first)
    assert {run for (run,) in rows(instance)} == {second}
    assert instance.get_run_by_id(first) is None
    assert instance.all_logs(first) == []
    remove_run(instance, second)
    assert check_results(instance, [CHECK]) == {CHECK: CheckResult.PASSED}
    assert instance.get_run_by_id(second) is None
