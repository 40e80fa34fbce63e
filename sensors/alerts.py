"""The sensor `headrace_alerts`: sends one message for each failed run and each failed check, warnings included."""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

import dagster as dg

from headrace.alerts.alerts import EVERYWHERE, Alert, AlertChannel, gaps, send
from headrace.config.operation import AlertsConfig
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import PARTITION_TAG, WORK_TAG, dataset_of, partition_label, partitions_of_run

UI_VARIABLE = "HEADRACE_UI_URL"
"""Environment variable with the address of Dagster's UI, for the links in alerts."""

_INTERVAL_SECONDS = 10
_MOST_PER_TICK = 20
_MOST_TRIES = 5
_Kind: TypeAlias = Literal[dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS]
_KINDS: dict[str, _Kind] = {"failure": dg.DagsterEventType.RUN_FAILURE, "success": dg.DagsterEventType.RUN_SUCCESS}


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Position up to which the sensor has read the runs.

    Attributes:
        failure: storage id of the last failed run.
        success: storage id of the last successful run, whose checks may have failed.
        tries: how often delivering the next alert has failed.
        channels: channels to which the next alert has not been delivered.
        lost: how many alerts were given up since the sensor was switched on.
    """

    failure: int
    success: int
    tries: int = 0
    channels: tuple[str, ...] = EVERYWHERE
    lost: int = 0


def alerts_sensor(datasets: Sequence[ProjectDataset]) -> dg.SensorDefinition:
    """The one sensor for all data sets of a project. Runs of other assets and jobs are ignored."""

    @dg.sensor(
        name="headrace_alerts",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends a message for every failed run and every failed check, to the webhook, e-mail and log that "
        "the data set's YAML names. Tries a few times if a message cannot be delivered.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        if context.cursor is None:
            failure, success = (_newest(context.instance, kind) for kind in _KINDS.values())
            start = ReadPosition(failure, success)
            return dg.SensorResult(skip_reason="reading runs from now on", cursor=json.dumps(asdict(start)))
        position, reason = _go_on(context.instance, ReadPosition(**json.loads(context.cursor)), datasets)
        reason = "; ".join([reason, *_all_gaps(datasets)])
        return dg.SensorResult(skip_reason=reason, cursor=json.dumps(asdict(position)))

    return alerts


def _all_gaps(datasets: Sequence[ProjectDataset]) -> list[str]:
    """Recipients that no message can reach, one line each, with the name of the data set."""
    return [f"{dataset.name}: {gap}" for dataset in datasets for gap in gaps(dataset.config.alerts, os.environ)]


def _go_on(
    instance: dg.DagsterInstance, position: ReadPosition, datasets: Sequence[ProjectDataset]
) -> tuple[ReadPosition, str]:
    """Send alerts about the next runs. Returns the new position, and the message of the tick."""
    num_sent = 0
    given_up: list[str] = []
    for name, kind in _KINDS.items():
        filters = dg.RunStatusChangeRecordsFilter(kind, after_storage_id=getattr(position, name))
        for record in instance.fetch_run_status_changes(filters, limit=_MOST_PER_TICK, ascending=True).records:
            has_alert, faults = _send_alert_of(instance, record.event_log_entry.run_id, datasets, position.channels)
            if faults and position.tries + 1 < _MOST_TRIES:
                waiting = replace(position, tries=position.tries + 1, channels=tuple(faults))
                return waiting, _message(num_sent, [*given_up, *faults.values()], position.lost)
            given_up += faults.values()
            num_sent += has_alert and not faults
            lost = position.lost + bool(faults)
            position = replace(position, **{name: record.storage_id}, tries=0, channels=EVERYWHERE, lost=lost)
    return position, _message(num_sent, given_up, position.lost)


def _message(num_sent: int, faults: Sequence[str], lost: int) -> str:
    """The message of a tick."""
    parts = [f"{num_sent} alerts sent"] if num_sent else []
    if faults:
        parts.append(f"could not be delivered: {'; '.join(faults)}")
    if lost:
        parts.append(f"{lost} alerts given up so far, after {_MOST_TRIES} tries each")
    return "; ".join(parts) or "nothing to report"


def _send_alert_of(
    instance: dg.DagsterInstance, run_id: str, datasets: Sequence[ProjectDataset], channels: Collection[str]
) -> tuple[bool, dict[AlertChannel, str]]:
    """Send the alert about a run, if any. Returns whether there is one, and errors by channel; never raises."""
    try:
        alert, config = _alert(instance, run_id, datasets)
    except Exception as error:  # noqa: BLE001 - the tick's edge: one run that cannot be read must not stop all alerts
        return True, {channel: f"run {run_id} cannot be read ({type(error).__name__})" for channel in EVERYWHERE}
    if alert is None:
        return False, {}
    return True, send(alert, config, os.environ, [channel for channel in EVERYWHERE if channel in channels])


def _alert(
    instance: dg.DagsterInstance, run_id: str, datasets: Sequence[ProjectDataset]
) -> tuple[Alert | None, AlertsConfig]:
    """The alert about a run that has ended, if any, and the recipients of its data set."""
    run = instance.get_run_by_id(run_id)
    name = None if run is None else dataset_of(run, datasets)
    dataset = next((dataset for dataset in datasets if dataset.name == name), None)
    if run is None or name is None or (dataset is not None and _is_outdated(run, dataset)):
        return None, AlertsConfig()
    keys = sorted(run.asset_selection or (), key=lambda key: key.path)
    config = dataset.config.alerts if dataset else AlertsConfig()
    checks = _failed_checks(instance, run)
    failures = _failures(instance, run_id) if run.status == dg.DagsterRunStatus.FAILURE else []
    if run.status != dg.DagsterRunStatus.FAILURE and not checks:
        return None, config
    made = ", ".join(dataset.keys.short(key) if dataset else "/".join(key.path) for key in keys) or run.job_name
    partition = f" [{label}]" if (label := partition_label(run)) else ""
    title = f"failed: {made}{partition}" if failures or not checks else f"checks failed: {made}{partition}"
    base = os.environ.get(UI_VARIABLE, "").rstrip("/")
    return Alert(name, title, "\n".join([*checks, *failures]), f"{base}/runs/{run_id}" if base else ""), config


def _is_outdated(run: dg.DagsterRun, dataset: ProjectDataset) -> bool:
    """Whether a sensor asked for a run of partitions that the YAML no longer has: Dagster fails it before it begins."""
    layout = dataset.partitions.get_partition_keys()
    return WORK_TAG in run.tags and not set(partitions_of_run(run, layout)) <= set(layout)


def _failed_checks(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """A line for each failed check. In a run of several partitions, the line names the partition."""
    entries = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found = [entry.get_dagster_event().asset_check_evaluation_data for entry in entries]
    is_named = PARTITION_TAG in run.tags
    return [
        f"check {check.check_name} of {'/'.join(check.asset_key.path)}"
        f"{'' if is_named or not check.partition else f' [{check.partition}]'}: {check.description or 'failed'}"
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


def _newest(instance: dg.DagsterInstance, kind: _Kind) -> int:
    records = instance.fetch_run_status_changes(kind, limit=1).records
    return records[0].storage_id if records else 0
