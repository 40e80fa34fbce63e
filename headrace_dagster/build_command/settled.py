"""Finds whether a build has left anything to do, by going through its decisions again without running an asset."""

import time
from dataclasses import replace

import dagster as dg

from headrace.errors import HeadraceError
from headrace_dagster.assets.records import AssetRecords
from headrace_dagster.build_command.driver import DatasetBuild
from headrace_dagster.build_command.ledger import Ledger
from headrace_dagster.build_command.runs import Runner, RunOutcome


def is_settled(build: DatasetBuild) -> bool:
    """Whether the same build would run nothing now, besides the scan."""
    ledger = Ledger(build.ledger.output, time.perf_counter)
    selected = build.selected - {build.keys.catalog}
    runner = _NoRunner(build.runner.records)
    try:
        return not replace(build, runner=runner, selected=selected, ledger=ledger, listed={}).run()
    except (_WorkIsDueError, HeadraceError):
        return False


class _WorkIsDueError(Exception):
    """An asset would be run."""


class _NoRunner(Runner):
    """Runs nothing."""

    def __init__(self, records: AssetRecords) -> None:
        self.records, self.outcomes, self.num_runs = records, [], 0

    def materialize(self, key: dg.AssetKey, *_: object, **__: object) -> RunOutcome:
        """Raise `_WorkIsDueError`."""
        raise _WorkIsDueError(key)

    def materialize_partitions(self, key: dg.AssetKey, *_: object, **__: object) -> None:
        """Raise `_WorkIsDueError`."""
        raise _WorkIsDueError(key)
