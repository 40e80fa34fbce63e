"""Which statuses of a Dagster run mean that it has ended."""

import dagster as dg

ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
UNDER_WAY = [status for status in dg.DagsterRunStatus if status not in {*ENDED, dg.DagsterRunStatus.MANAGED}]
"""Queued, starting, in progress or being canceled. MANAGED runs are those that Dagster does not execute."""
