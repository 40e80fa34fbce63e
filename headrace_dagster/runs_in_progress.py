"""Lists the runs that an instance of Dagster has in progress, for `headrace gc --now` (entry point)."""

import os

import dagster as dg

from headrace_dagster.assets.run_statuses import UNDER_WAY


def runs_in_progress() -> list[str]:
    """A description of each run in progress or queued, of the instance in DAGSTER_HOME; empty if that is not set."""
    if not os.environ.get("DAGSTER_HOME"):
        return []
    with dg.DagsterInstance.get() as instance:
        runs = instance.get_runs(filters=dg.RunsFilter(statuses=UNDER_WAY))
        return [f"Dagster's run {run.run_id} of {run.job_name} ({run.status.value})" for run in runs]
