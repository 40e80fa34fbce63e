"""Records that Dagster makes of a run of several partitions, without Headrace: the facts of docs/design/0080.

If a new version of Dagster makes one of these tests fail, `resources/dagster_internals/partition_events.py` may have
become simpler, or wrong.
"""

from collections.abc import Iterator

import dagster as dg
import pytest

from headrace_dagster.resources.dagster_internals.event_log import (
    DATA_VERSION_TAG,
    CheckResult,
    partition_check_results,
    partition_versions,
)
from headrace_dagster.resources.dagster_internals.partition_events import recorded_output
from tests.support.instances import memory_instance

PARTITIONS = dg.StaticPartitionsDefinition(["p0", "p1", "p2", "p3"])
RANGE = {"dagster/asset_partition_range_start": "p1", "dagster/asset_partition_range_end": "p3"}
UP, DOWN = dg.AssetKey("up"), dg.AssetKey("down")
OK = dg.AssetCheckKey(UP, "ok")
OWN = {name: f"version of {name}" for name in ("p1", "p2", "p3")}
SHARED = dict.fromkeys(OWN, "shared")


def shared():
    return dg.MaterializeResult(data_version=dg.DataVersion("shared"))


def own(partition):
    return dg.AssetMaterialization(UP, partition=partition, tags={DATA_VERSION_TAG: OWN[partition]})


def evaluation(partition):
    return dg.AssetCheckEvaluation(asset_key=UP, check_name="ok", passed=True, partition=partition)


class Ran:
    """A run of the range, of an asset, an asset that depends on it, and a check of it."""

    def __init__(self, make, check=None, *, output_required=True, **tags):
        @dg.asset(key=UP, partitions_def=PARTITIONS, output_required=output_required)
        def up(context: dg.AssetExecutionContext) -> Iterator:
            yield from make(context)

        @dg.asset(key=DOWN, deps=[UP], partitions_def=PARTITIONS)
        def down() -> dg.MaterializeResult:
            return dg.MaterializeResult()

        @dg.multi_asset_check(specs=[dg.AssetCheckSpec("ok", asset=UP, partitions_def=PARTITIONS)])
        def checks(context: dg.AssetCheckExecutionContext) -> Iterator:
            yield from check(context)

        definitions = dg.Definitions(assets=[up, down], asset_checks=[checks] if check else [])
        self.instance = memory_instance()
        self.result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            tags={**RANGE, **tags},
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )

    def events(self, key=UP) -> list[tuple[str, str]]:
        """Partition and data version of all materializations, sorted by partition, otherwise in order."""
        found = self.instance.fetch_materializations(key, limit=99, ascending=True).records
        events = [
            (record.partition_key, (record.asset_materialization.tags or {}).get(DATA_VERSION_TAG)) for record in found
        ]
        return sorted(events, key=lambda event: event[0])

    def versions(self) -> dict[str, str]:
        """The data versions of the partitions, for which the newest event counts."""
        return partition_versions(self.instance, UP, dg.DagsterEventType.ASSET_MATERIALIZATION)

    def checked(self) -> dict[str, CheckResult]:
        return {partition: result for (_, partition), result in partition_check_results(self.instance, [OK]).items()}

    def message(self) -> str:
        (event,) = [event for event in self.result.all_events if event.is_step_failure]
        return event.step_failure_data.error.message

    def planned(self) -> int:
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
        return len(self.instance.all_logs(self.result.run_id, of_type=kind))


def test_a_result_is_recorded_for_every_partition_with_one_version():
    ran = Ran(lambda _: [shared()])
    assert ran.events() == list(SHARED.items())
    assert ran.planned() > 0


@pytest.mark.medium
def test_a_second_result_is_an_error():
    ran = Ran(lambda context: [shared() for _ in context.partition_keys])
    assert 'returned an output "result" multiple times' in ran.message()
    assert ran.versions() == SHARED


@pytest.mark.medium
@pytest.mark.parametrize("how", ["logged", "yielded"])
def test_of_events_before_the_result_that_of_the_framework_wins(how):
    def make(context):
        for partition in context.partition_keys:
            if how == "logged":
                context.log_event(own(partition))
            else:
                yield own(partition)
        yield shared()

    ran = Ran(make)
    assert ran.events() == [event for name in OWN for event in ((name, OWN[name]), (name, "shared"))]
    assert ran.versions() == SHARED


@pytest.mark.medium
def test_of_events_after_the_result_ours_win_but_partitions_count_as_made_before_they_are():
    def make(context):
        yield shared()
        yield own("p1")
        raise dg.Failure("p2")

    ran = Ran(make)
    assert ran.versions() == {**SHARED, "p1": OWN["p1"]}


def test_without_an_output_there_is_one_event_each_and_later_steps_are_skipped():
    ran = Ran(lambda context: map(own, context.partition_keys), output_required=False)
    assert ran.events() == list(OWN.items())
    assert ran.events(DOWN) == []
    assert ran.result.success


def test_a_run_that_defers_asset_events_plans_none():
    ran = Ran(lambda context: [*map(own, context.partition_keys), shared()], **{"dagster/defer_asset_events": "true"})
    assert ran.events() == list(OWN.items())
    assert ran.planned() == 0
    assert ran.events(DOWN) == []


def test_with_the_output_that_is_not_recorded_there_is_one_event_each_and_later_steps_follow():
    ran = Ran(lambda context: [*map(own, context.partition_keys), recorded_output()])
    assert ran.events() == list(OWN.items())
    assert [partition for partition, _ in ran.events(DOWN)] == list(OWN)
    assert ran.planned() > 0


@pytest.mark.medium
def test_a_result_of_a_check_has_no_partition():
    ran = Ran(lambda _: [shared()], lambda _: [dg.AssetCheckResult(passed=True)])
    assert ran.checked() == {"None": CheckResult.PASSED, **dict.fromkeys(OWN, CheckResult.UNKNOWN)}


@pytest.mark.medium
def test_evaluations_of_a_check_fill_what_was_planned_and_need_an_output():
    ran = Ran(
        lambda _: [shared()],
        lambda context: [*map(evaluation, context.partition_keys), dg.Output(None, output_name="up_ok")],
    )
    assert ran.checked() == dict.fromkeys(OWN, CheckResult.PASSED)
    assert ran.result.success
    ran = Ran(lambda _: [shared()], lambda context: map(evaluation, context.partition_keys))
    assert "did not return an output for non-optional output" in ran.message()


@pytest.mark.medium
def test_after_a_failure_the_finished_partitions_stay_materialized_and_checked():
    def make(_):
        for partition in ("p1", "p3"):
            yield own(partition)
            yield evaluation(partition)  # of a check that is another step
        raise dg.Failure("p2")

    ran = Ran(make, lambda _: [dg.AssetCheckResult(passed=False)])
    assert not ran.result.success
    assert ran.versions() == {name: OWN[name] for name in ("p1", "p3")}
    assert ran.checked() == {"p1": CheckResult.PASSED, "p2": CheckResult.UNKNOWN, "p3": CheckResult.PASSED}
