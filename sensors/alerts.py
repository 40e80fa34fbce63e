"""alerts: tells people of failed runs and failed checks, drift and growing rejects among them. Once each."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import dagster as dg

from assets.tags import PARTITION_TAG, dataset_of
from headrace.alerting import Alert, gaps, send
from headrace.config import AlertsConfig, DatasetConfig

UI_VARIABLE = "HEADRACE_UI_URL"
"""Where people open Dagster, for the links in alerts."""

_INTERVAL_SECONDS = 10
_MOST_PER_TICK = 20
_MOST_TRIES = 5
_KINDS = {"failure": dg.DagsterEventType.RUN_FAILURE, "success": dg.DagsterEventType.RUN_SUCCESS}


@dataclass(frozen=True, slots=True)
class Position:
    """How far the runs have been looked at.

    Attributes:
        failure: the last failed run, by storage id.
        success: the last successful one; a check of it may have failed.
        tries: attempts to deliver the next alert.
    """

    failure: int
    success: int
    tries: int = 0


def alerts_sensor(configs: Mapping[str, DatasetConfig]) -> dg.SensorDefinition:
    """The one sensor for all data sets, by name."""

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="A message for every failed run and every failed check, to the webhook, e-mail and log that the "
        "data set's YAML names. What cannot be delivered is tried again a few times.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        if context.cursor is None:
            start = Position(*(_newest(context.instance, kind) for kind in _KINDS.values()))
            return dg.SensorResult(skip_reason="looking at runs from now on", cursor=json.dumps(asdict(start)))
        position, reason = _go_on(context.instance, Position(**json.loads(context.cursor)), configs)
        reason = "; ".join([reason, *_all_gaps(configs)])
        return dg.SensorResult(skip_reason=reason, cursor=json.dumps(asdict(position)))

    return alerts


def _all_gaps(configs: Mapping[str, DatasetConfig]) -> list[str]:
    """Recipients that no message can reach, by data set."""
    return [f"{name}: {gap}" for name, config in configs.items() for gap in gaps(config.alerts, os.environ)]


def _go_on(
    instance: dg.DagsterInstance, position: Position, configs: Mapping[str, DatasetConfig]
) -> tuple[Position, str]:
    """Tell of the next runs. Returns where that ended, and what there is to say about it."""
    told = 0
    places = {"failure": position.failure, "success": position.success}
    tries = position.tries
    for name, kind in _KINDS.items():
        filters = dg.RunStatusChangeRecordsFilter(kind, after_storage_id=places[name])
        for record in instance.fetch_run_status_changes(filters, limit=_MOST_PER_TICK, ascending=True).records:
            alert, config = _alert(instance, record.event_log_entry.run_id, configs)
            faults = send(alert, config, os.environ) if alert else []
            if faults and tries + 1 < _MOST_TRIES:
                return Position(**places, tries=tries + 1), f"could not be delivered: {'; '.join(faults)}"
            places[name], tries = record.storage_id, 0
            told += alert is not None
    return Position(**places), f"{told} alerts" if told else "nothing to tell"


def _alert(
    instance: dg.DagsterInstance, run_id: str, configs: Mapping[str, DatasetConfig]
) -> tuple[Alert | None, AlertsConfig]:
    """What a finished run has to tell, if anything, and who hears it."""
    run = instance.get_run_by_id(run_id)
    if run is None:
        return None, AlertsConfig()
    keys = sorted(run.asset_selection or (), key=lambda key: key.path)
    dataset = dataset_of(run)
    config = configs[dataset].alerts if dataset in configs else AlertsConfig()
    checks = _failed_checks(instance, run_id)
    failures = _failures(instance, run_id) if run.status == dg.DagsterRunStatus.FAILURE else []
    if run.status != dg.DagsterRunStatus.FAILURE and not checks:
        return None, config
    made = ", ".join("/".join(key.path[1:]) for key in keys) or run.job_name
    partition = f" [{run.tags[PARTITION_TAG]}]" if PARTITION_TAG in run.tags else ""
    title = f"failed: {made}{partition}" if failures or not checks else f"checks failed: {made}{partition}"
    base = os.environ.get(UI_VARIABLE, "").rstrip("/")
    return Alert(dataset, title, "\n".join([*checks, *failures]), f"{base}/runs/{run_id}" if base else ""), config


def _failed_checks(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found = [entry.get_dagster_event().asset_check_evaluation_data for entry in entries]
    return [
        f"check {check.check_name} of {'/'.join(check.asset_key.path)}: {check.description or 'failed'}"
        for check in found
        if not check.passed
    ]


def _failures(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    texts = []
    for entry in entries:
        found = entry.get_dagster_event().step_failure_data
        ours = found.user_failure_data and found.user_failure_data.description
        texts.append(ours or (found.error and found.error.message.strip()))
    return [str(text) for text in texts if text] or ["the run ended without a failed step; its process may have died"]


def _newest(instance: dg.DagsterInstance, kind: dg.DagsterEventType) -> int:
    records = instance.fetch_run_status_changes(kind, limit=1).records
    return records[0].storage_id if records else 0
