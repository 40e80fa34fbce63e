"""Runs assets in this process, and describes what failed."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from headrace.assemble.audio_counts import NO_AUDIO, AudioCounts
from headrace_dagster.assets.column_checks import READ
from headrace_dagster.assets.factory import build_assets
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import AssetRecords
from headrace_dagster.assets.regression_checks import DROPPED_AUDIO, NEW_REJECTS
from headrace_dagster.assets.tags import HOST_TAG, range_tags

_INTERRUPTED = dg.DagsterExecutionInterruptedError.__name__


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of a run.

    Attributes:
        key: the asset.
        partition: its partition, if the asset is partitioned.
        run_id: id of the run, under which Dagster keeps the log.
        faults: one message per failed step or check; empty if the run succeeded.
        seconds: how long the run took.
        audio: how the audio of the asset's samples came into the shards.
        stops: whether assets that are made from this one are not built: there are faults, and not only invalid tables
            of columns, which leave the columns as they were.
        warnings: one message per check that warns of something that the account of the build does not say.
    """

    key: dg.AssetKey
    partition: str | None
    run_id: str
    faults: tuple[str, ...]
    seconds: float
    audio: AudioCounts = NO_AUDIO
    stops: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The asset and its partition, for messages: `demo/audio_shards [train-0000]`."""
        return "/".join(self.key.path) + (f" [{self.partition}]" if self.partition else "")


class Runner:
    """Runs assets of one data set and records the runs in a Dagster instance."""

    def __init__(  # noqa: PLR0913 - what is run, how it is recorded, and who watches
        self,
        dataset: ProjectDataset,
        instance: dg.DagsterInstance,
        resources: Mapping[str, object],
        *,
        log_level: str,
        before_run: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.instance = instance
        self._catalog = dataset.keys.catalog
        self._before_run = before_run
        self._clock = clock
        self._definitions = build_assets([dataset], resources)
        self._job = self._definitions.resolve_implicit_global_asset_job_def()
        self.records = AssetRecords(instance, self._definitions.resolve_asset_graph().asset_check_keys)
        self._config = {"loggers": {"console": {"config": {"log_level": log_level}}}}
        self.outcomes: list[RunOutcome] = []
        self.num_runs = 0

    def materialize(
        self, key: dg.AssetKey, partition: str | None = None, also: Sequence[dg.AssetKey] = ()
    ) -> RunOutcome:
        """Materialize one asset (or one partition of it) and run its checks.

        Args:
            key: the asset.
            partition: its partition, if it is partitioned.
            also: assets that are made from it in the same run, which costs less than a run for each. Those that were
                reached have outcomes of their own.

        Returns:
            The outcome of the asset.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. Finished shards are kept.
        """
        began = self._clock()
        result = self._run([key, *also], partition)
        seconds = {other: spent for other in also if (spent := _seconds_of(result, other)) is not None}
        own = self._clock() - began - sum(seconds.values())
        faults = tuple(_faults(result, apart=list(seconds)))
        stops = bool(_faults(result, apart=list(seconds), but=READ))
        warnings = tuple(_warnings(result)) if key == self._catalog else ()
        outcome = RunOutcome(key, partition, result.run_id, faults, own, _audio_of(result, key), stops, warnings)
        self.outcomes.append(outcome)
        for other, spent in seconds.items():
            faults = tuple(_faults(result, only=other))
            self.outcomes.append(RunOutcome(other, partition, result.run_id, faults, spent, stops=bool(faults)))
        return outcome

    def materialize_partitions(
        self, key: dg.AssetKey, partitions: Sequence[str], also: Sequence[dg.AssetKey] = ()
    ) -> None:
        """Materialize consecutive partitions of an asset in one run. Each has an outcome of its own.

        Args:
            key: the asset.
            partitions: its partitions.
            also: as for `materialize`.

        Raises:
            KeyboardInterrupt: as for `materialize`.
        """
        if len(partitions) == 1:
            self.materialize(key, partitions[0], also)
            return
        began = self._clock()
        result = self._run([key, *also], None, range_tags(partitions))
        reached = {other: spent for other in also if (spent := _seconds_of(result, other)) is not None}
        own = self._clock() - began - sum(reached.values())
        for made, seconds in {key: own, **reached}.items():
            self.outcomes += _outcomes_of_partitions(result, made, partitions, seconds)
        if not result.success and not any(outcome.run_id == result.run_id for outcome in self._failed()):
            fault = f"the run failed; see run {result.run_id}"
            self.outcomes.append(RunOutcome(key, None, result.run_id, (fault,), 0.0, stops=True))

    def _failed(self) -> list[RunOutcome]:
        return [outcome for outcome in self.outcomes if outcome.faults]

    def _run(
        self, keys: Sequence[dg.AssetKey], partition: str | None, tags: Mapping[str, str] | None = None
    ) -> dg.ExecuteInProcessResult:
        """Run assets. Raises `KeyboardInterrupt` if Ctrl-C was pressed."""
        self._before_run()
        self.num_runs += 1
        result = self._job.execute_in_process(
            run_config=self._config,
            instance=self.instance,
            partition_key=partition,
            asset_selection=keys,
            tags={HOST_TAG: socket.gethostname(), **(tags or {})},
            raise_on_error=False,
        )
        if _was_interrupted(result):
            raise KeyboardInterrupt
        return result

    def take_faults(self) -> list[RunOutcome]:
        """Remove the outcomes with faults from `outcomes`, and return them."""
        faults = self._failed()
        self.outcomes = [outcome for outcome in self.outcomes if not outcome.faults]
        return faults

    def lacking(self, key: dg.AssetKey) -> list[dg.AssetKey]:
        """Assets that an asset is made from, and that were never made."""
        needed = self._definitions.resolve_asset_graph().get(key).parent_keys & set(self.keys())
        return sorted(one for one in needed if not self.records.last_run(one))

    def keys(self) -> list[dg.AssetKey]:
        """All assets of the data set that can be materialized."""
        return sorted(self._definitions.resolve_asset_graph().materializable_asset_keys)

    def select(self, text: str) -> set[dg.AssetKey]:
        """The assets that an expression in Dagster's selection syntax names; empty if the expression is invalid."""
        try:
            found = set(dg.AssetSelection.from_string(text).resolve(self._definitions.resolve_asset_graph()))
        except dg.DagsterError:
            return set()
        return found & set(self.keys())


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether Ctrl-C ended the run. Dagster turns it into a failed step and returns."""
    errors = (event.step_failure_data.error for event in result.all_events if event.is_step_failure)
    return any(error is not None and error.cls_name == _INTERRUPTED for error in errors)


def _seconds_of(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> float | None:
    """Duration of the step of an asset; 0 if it failed, None if it was not reached."""
    for event in result.all_events:
        if event.step_key == _step_of(key) and (event.is_step_success or event.is_step_failure):
            return event.step_success_data.duration_ms / 1000 if event.is_step_success else 0.0
    return None


def _audio_of(result: dg.ExecuteInProcessResult, key: dg.AssetKey, partition: str | None = None) -> AudioCounts:
    """The counts in the metadata of a materialization, by default of the run's only one; zeros for other assets."""
    events = (event.materialization for event in result.get_asset_materialization_events())
    found = next((one.metadata for one in events if one.asset_key == key and partition in {None, one.partition}), {})
    return AudioCounts.of_metadata({name: value.value for name, value in found.items()})


def _outcomes_of_partitions(
    result: dg.ExecuteInProcessResult, key: dg.AssetKey, partitions: Sequence[str], seconds: float
) -> list[RunOutcome]:
    """The outcome of each partition of an asset in a run of several, to which the step's seconds are divided.

    A step that failed before it made any partition has one outcome, without a partition.
    """
    faults = _faults_by_partition(result, key, partitions)
    failed = [event for event in result.all_events if event.is_step_failure and event.step_key == _step_of(key)]
    if failed and not faults:
        return [RunOutcome(key, None, result.run_id, (_failure(failed[0]),), seconds, stops=True)]
    return [
        RunOutcome(
            key,
            partition,
            result.run_id,
            faults.get(partition, ()),
            seconds / len(partitions),
            _audio_of(result, key, partition),
            stops=partition in faults,
        )
        for partition in partitions
    ]


def _faults_by_partition(
    result: dg.ExecuteInProcessResult, key: dg.AssetKey, partitions: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Failures in a run of several partitions: the message of each partition that an asset's step names."""
    found: dict[str, tuple[str, ...]] = {}
    for event in result.all_events:
        if event.is_step_failure and event.step_key == _step_of(key):
            named = event.step_failure_data.user_failure_data
            reasons = named.metadata if named else {}
            found |= {name: (str(reasons[name].value),) for name in partitions if name in reasons}
    return found


def _step_of(key: dg.AssetKey) -> str:
    """Key of the step that makes an asset."""
    return "__".join(key.path)


def _warnings(result: dg.ExecuteInProcessResult) -> Iterator[str]:
    """Warnings of checks in a scan, except those that a build reports itself: rejects, missing audio and tables."""
    for evaluation in result.get_asset_check_evaluations():
        is_warning = not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.WARN
        if is_warning and evaluation.check_name not in {NEW_REJECTS, DROPPED_AUDIO, READ}:
            yield f"check {evaluation.check_name}: {evaluation.description or 'see the run'}"


def _faults(
    result: dg.ExecuteInProcessResult,
    *,
    apart: Sequence[dg.AssetKey] = (),
    only: dg.AssetKey | None = None,
    but: str | None = None,
) -> list[str]:
    """Failures in a run: all of them, without the steps and checks of some assets, or only those of one asset.

    Checks with the name `but` do not count.
    """
    steps_apart = {_step_of(key) for key in apart}
    checks = [
        f"check {evaluation.check_name} failed: {evaluation.description or 'see the run'}"
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR
        if evaluation.asset_key not in apart and only in {None, evaluation.asset_key}
        if evaluation.check_name != but
    ]
    steps = [
        _failure(event)
        for event in result.all_events
        if event.is_step_failure and event.step_key not in steps_apart
        if only is None or event.step_key == _step_of(only)
    ]
    # A failed blocking check also fails its step, whose message says less or the same.
    steps = [step for step in steps if not any(check.endswith(step) for check in checks)]
    is_unexplained = not result.success and only is None and not any(_faults(result, only=key) for key in apart)
    return [*checks, *(step for step in steps if not (checks and "blocking" in step))] or (
        [f"the run failed; see run {result.run_id}"] if is_unexplained else []
    )


def _failure(event: dg.DagsterEvent) -> str:
    """The message of Headrace's own failure, or otherwise of the innermost cause."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return "unexpected: " + (error.message.strip() if error else str(event.message))
