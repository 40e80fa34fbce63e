"""The process of a run is the last one that logged its number."""

# ruff: noqa: TID251

import dagster as dg
from dagster._core.events import EngineEventData

from headrace_dagster.resources.dagster_internals.run_processes import run_process


def test_the_last_number_counts_and_events_without_one_do_not():
    with dg.DagsterInstance.ephemeral() as instance:
        check_process(instance)


def check_process(instance):
    run = instance.create_run_for_job(dg.GraphDefinition("a").to_job())
    assert run_process(instance, run.run_id) is None
    for pid in (17, 23):
        instance.report_engine_event("started", run, EngineEventData({"pid": dg.MetadataValue.text(str(pid))}))
    instance.report_engine_event("something else", run)
    found = run_process(instance, run.run_id)
    assert found.pid == 23
    assert found.seen_seconds > 0
    assert run_process(instance, "another") is None
