"""The sensor NAME_source_changes: lists the source, and starts a scan when it differs from the catalog."""

import time

import dagster as dg

from headrace.assemble.waves import Pause, RunPatience, patience_left
from headrace.catalog.stored.header import header_version, read_current_header, read_stamps
from headrace.config.dataset import DatasetConfig
from headrace.sources.source_changes import list_within, source_difference
from headrace_dagster.assets.catalog import source_inputs
from headrace_dagster.assets.events import INPUTS_TAG, short_digest
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import DATASET_TAG, WORK_TAG
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.activity import ActiveRun, active_runs, attempts_at
from headrace_dagster.sensors.backfills import pending_runs
from headrace_dagster.sensors.loaded import ConfigOrigin

_INTERVAL_SECONDS = 1  # every round of the daemon, which takes 5 s
_LOOK_SECONDS = 1.4
_LARGE_REST_SECONDS = 300.0
_COMMIT_SECONDS = 30.0
_TOO_LARGE = "too large since "
_FIRST = {"dagster/priority": "1"}
_NS = 1_000_000_000


def source_changes_sensor(
    dataset: ProjectDataset, storage: StorageResource, origin: ConfigOrigin | None = None
) -> dg.SensorDefinition:
    """The sensor of a data set, whose relative URIs `storage` resolves and whose configuration is from `origin`."""
    config, keys = dataset.config, dataset.keys

    @dg.sensor(
        name=f"{config.name}_source_changes",
        target=dg.AssetSelection.assets(keys.catalog),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists the source and compares names, sizes and times with the catalog. Starts a scan when files "
        f"differ that have not changed for {config.source.settle_seconds:g} s. A source too large to list in a tick is "
        "left to the schedule `refresh`.",
    )
    def source_changes(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        inputs = source_inputs(config, storage)
        is_resting = _is_resting(context.cursor)
        listing = None if is_resting else list_within(storage.source(config), _LOOK_SECONDS)
        if listing is None:
            return _unlisted(context, dataset, storage, origin, inputs, is_resting=is_resting)
        output = storage.output(config)
        mark = short_digest(inputs, listing.digest, header_version(output))
        if context.cursor == mark:
            return dg.SkipReason("no change")
        catalog = read_current_header(output, config)
        known_files = None if catalog is None else read_stamps(output, catalog)
        difference = source_difference(listing, known_files, config.source.settle_seconds, time.time_ns())
        known, made = _last_scan(context.instance, keys.catalog)
        is_other = inputs != known and not _is_young(config, storage)
        if not (difference.is_changed or is_other):
            waiting = difference.num_waiting or inputs != known
            reason = f"{difference.num_waiting} files are still settling" if waiting else "no change"
            return dg.SensorResult(skip_reason=reason, cursor=None if waiting else mark)
        token = short_digest(inputs, difference.digest, made)
        hold = _hold(context, dataset, origin, token)
        return dg.SkipReason(hold) if hold else _scan(dataset, token)

    return source_changes


def _unlisted(  # noqa: PLR0913 - what a tick knows
    context: dg.SensorEvaluationContext,
    dataset: ProjectDataset,
    storage: StorageResource,
    origin: ConfigOrigin | None,
    inputs: str,
    *,
    is_resting: bool,
) -> dg.SensorResult:
    """The tick of a source too large to list: starts a scan if there is no usable catalog, or if settings changed.

    For some minutes after a listing that took too long, only the settings are compared.
    """
    config, keys = dataset.config, dataset.keys
    cursor = None if is_resting else f"{_TOO_LARGE}{time.time()}"
    known, made = _last_scan(context.instance, keys.catalog)
    is_other = inputs != known and not _is_young(config, storage)
    if not is_other and (is_resting or read_current_header(storage.output(config), config) is not None):
        reason = f"not listed within {_LOOK_SECONDS} s: the source is left to the schedule `refresh`"
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    token = short_digest(inputs, made)
    hold = _hold(context, dataset, origin, token)
    return dg.SensorResult(skip_reason=hold, cursor=cursor) if hold else _scan(dataset, token, cursor)


def _scan(dataset: ProjectDataset, token: str, cursor: str | None = None) -> dg.SensorResult:
    tags = {DATASET_TAG: dataset.name, WORK_TAG: token, **_FIRST}
    request = dg.RunRequest(asset_selection=[dataset.keys.catalog], tags=tags)
    return dg.SensorResult(run_requests=[request], cursor=cursor)


def _hold(
    context: dg.SensorEvaluationContext, dataset: ProjectDataset, origin: ConfigOrigin | None, token: str
) -> str | None:
    """Why a scan that is due does not start yet; None if it can start."""
    if origin is not None and (held := origin.why_held(dataset.config)):
        return held
    instance, keys, config = context.instance, dataset.keys, dataset.config
    runs = [*active_runs(instance, dataset), *pending_runs(instance, context.repository_def.asset_graph)]
    if any(run.makes([keys.catalog]) for run in runs):
        return "a scan is in progress"
    if any(_commits(run, keys, config) for run in runs):
        return "a snapshot is being committed, and a new catalog would make the commit fail"
    attempts = attempts_at(instance, [token]).get(token)
    pause = patience_left(attempts, RunPatience()) if attempts else None
    if pause is Pause.CANCELLED:
        return f"the scan was {pause}"
    return f"the scan failed: {pause}" if pause else None


def _commits(run: ActiveRun, keys: DatasetKeys, config: DatasetConfig) -> bool:
    columns = (keys.columns_index(name) for name in config.column_sets)
    indexes = [keys.sizes_index, *columns, *(keys.latents_index(latents.name) for latents in config.latents)]
    indexes += map(keys.view, config.views)
    return run.makes(indexes) and run.seconds < _COMMIT_SECONDS


def _last_scan(instance: dg.DagsterInstance, key: dg.AssetKey) -> tuple[str | None, str]:
    """The inputs tag of the last materialized catalog, and an id of that materialization."""
    event = instance.get_latest_materialization_event(key)
    if event is None or event.asset_materialization is None:
        return None, ""
    return (event.asset_materialization.tags or {}).get(INPUTS_TAG), f"{event.run_id} {event.timestamp}"


def _is_young(config: DatasetConfig, storage: StorageResource) -> bool:
    """Whether one of the user's tables changed less than `source.settle_seconds` ago, and may still be written."""
    stamps = [stamp for stamp in storage.table_stamps(config).values() if stamp is not None]
    return any(abs(time.time_ns() - stamp.mtime_ns) < config.source.settle_seconds * _NS for stamp in stamps)


def _is_resting(cursor: str | None) -> bool:
    if not (cursor or "").startswith(_TOO_LARGE):
        return False
    return time.time() - float(str(cursor).removeprefix(_TOO_LARGE)) < _LARGE_REST_SECONDS
