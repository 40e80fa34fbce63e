"""One run of one asset in this process, and what it came to in words."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterError

from assets.factory import build_definitions
from assets.records import Records
from assets.tags import HOST_TAG
from headrace.config import DatasetConfig


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        key: the asset.
        partition: its partition, if it has any.
        run_id: where Dagster keeps the log.
        faults: what went wrong, one message per failed step or check; empty when all is well.
    """

    key: dg.AssetKey
    partition: str | None
    run_id: str
    faults: tuple[str, ...]

    @property
    def name(self) -> str:
        """The asset and its partition as a person would say it."""
        return "/".join(self.key.path) + (f" [{self.partition}]" if self.partition else "")


class Runner:
    """Runs assets of one data set and keeps the record in a Dagster instance."""

    def __init__(
        self,
        config: DatasetConfig,
        instance: dg.DagsterInstance,
        resources: Mapping[str, object],
        *,
        log_level: str,
        before_run: Callable[[], None] = lambda: None,
    ) -> None:
        self.instance = instance
        self._before_run = before_run
        self._definitions = build_definitions([config], resources)
        self._job = self._definitions.resolve_implicit_global_asset_job_def()
        self.records = Records(instance, self._definitions.resolve_asset_graph().asset_check_keys)
        self._config = {"loggers": {"console": {"config": {"log_level": log_level}}}}
        self.outcomes: list[Outcome] = []

    def materialize(self, key: dg.AssetKey, partition: str | None = None) -> Outcome:
        """Materialize one asset (or one partition of it) and run its checks.

        Raises:
            KeyboardInterrupt: Ctrl-C; shards that are finished are kept.
        """
        self._before_run()
        result = self._job.execute_in_process(
            run_config=self._config,
            instance=self.instance,
            partition_key=partition,
            asset_selection=[key],
            tags={HOST_TAG: socket.gethostname()},
            raise_on_error=False,
        )
        if _was_interrupted(result):
            raise KeyboardInterrupt
        outcome = Outcome(key, partition, result.run_id, tuple(_faults(result)))
        self.outcomes.append(outcome)
        return outcome

    def take_faults(self) -> list[Outcome]:
        """The outcomes with faults, which are no longer counted."""
        faults = [outcome for outcome in self.outcomes if outcome.faults]
        self.outcomes = [outcome for outcome in self.outcomes if not outcome.faults]
        return faults

    def keys(self) -> list[dg.AssetKey]:
        """All assets of the data set that can be materialized."""
        return sorted(self._definitions.resolve_asset_graph().materializable_asset_keys)

    def select(self, text: str) -> set[dg.AssetKey]:
        """The assets that an expression in Dagster's selection syntax names; none if it is no such expression."""
        try:
            found = dg.AssetSelection.from_string(text).resolve(self._definitions.resolve_asset_graph())
        except DagsterError:
            return set()
        return found & set(self.keys())


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Dagster turns Ctrl-C into a failed step and returns."""
    errors = (event.step_failure_data.error for event in result.all_events if event.is_step_failure)
    return any(error is not None and error.cls_name == "DagsterExecutionInterruptedError" for error in errors)


def _faults(result: dg.ExecuteInProcessResult) -> list[str]:
    checks = [
        f"check {evaluation.check_name} failed: {evaluation.description or 'see the run'}"
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR
    ]
    steps = [_failure(event) for event in result.all_events if event.is_step_failure]
    # A failed blocking check also fails its step, which says less.
    return [*checks, *(step for step in steps if not (checks and "blocking" in step))] or (
        [] if result.success else [f"the run failed; see run {result.run_id}"]
    )


def _failure(event: dg.DagsterEvent) -> str:
    """Our own message where the failure is one of ours, otherwise the innermost cause."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return "unexpected: " + (error.message.strip() if error else str(event.message))
