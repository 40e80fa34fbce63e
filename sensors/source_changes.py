"""NAME_source_changes: a cheap look at the source, and a scan when it differs from the catalog."""

import time
from pathlib import Path

import dagster as dg

from assets.catalog import source_inputs
from assets.events import INPUTS_TAG, short_digest
from assets.keys import DatasetKeys
from assets.tags import DATASET_TAG, WORK_TAG
from headrace.catalog_summary import CATALOG_FOLDER, read_summary
from headrace.config import DatasetConfig
from headrace.source_changes import list_within, source_difference
from headrace.storage import Storage
from headrace.waves import Patience, patience_left
from resources.storage import StorageResource
from sensors.activity import ActiveRun, active_runs, attempts_at
from sensors.loaded import why_held

_INTERVAL_SECONDS = 1  # every round of the daemon, which takes 5 s
_LOOK_SECONDS = 1.4
_LARGE_REST_SECONDS = 300.0
_COMMIT_SECONDS = 30.0
_TOO_LARGE = "too large since "
_FIRST = {"dagster/priority": "1"}
_NS = 1_000_000_000


def source_changes_sensor(
    config: DatasetConfig, storage: StorageResource, folder: Path | None = None
) -> dg.SensorDefinition:
    """The sensor of a data set, whose relative URIs `storage` resolves and whose YAML file lies in `folder`."""
    keys = DatasetKeys(config.name)

    @dg.sensor(
        name=f"{config.name}_source_changes",
        target=dg.AssetSelection.assets(keys.catalog),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists the source and compares names, sizes and times with the catalog; scans when files that "
        f"stand still for {config.source.settle_seconds:g} s differ. A source too large to list in a tick is left to "
        "the nightly refresh.",
    )
    def source_changes(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        inputs = source_inputs(config, storage)
        is_resting = _is_resting(context.cursor)
        listing = None if is_resting else list_within(storage.source(config), _LOOK_SECONDS)
        if listing is None:
            return _unlisted(context, config, storage, folder, inputs, is_resting=is_resting)
        output = storage.output(config)
        mark = short_digest(inputs, listing.digest, *_catalog_marks(output))
        if context.cursor == mark:
            return dg.SkipReason("no change")
        catalog = read_summary(output, config)
        known_files = None if catalog is None else catalog.stamps
        difference = source_difference(listing, known_files, config.source.settle_seconds, time.time_ns())
        known, made = _last_scan(context.instance, keys.catalog)
        is_other = inputs != known and not _is_young(config, storage)
        if not (difference.is_changed or is_other):
            waiting = difference.num_waiting or inputs != known
            reason = f"{difference.num_waiting} files are still settling" if waiting else "no change"
            return dg.SensorResult(skip_reason=reason, cursor=None if waiting else mark)
        token = short_digest(inputs, difference.digest, made)
        hold = why_held(config, folder) or _hold(context.instance, keys, config, token)
        return dg.SkipReason(hold) if hold else _scan(keys, token)

    return source_changes


def _unlisted(  # noqa: PLR0913 - what a tick knows
    context: dg.SensorEvaluationContext,
    config: DatasetConfig,
    storage: StorageResource,
    folder: Path | None,
    inputs: str,
    *,
    is_resting: bool,
) -> dg.SensorResult:
    """A source too large to list in a tick: scanned where its catalog cannot be used, or was made from other settings.

    While it rests, which spares listing it at every tick, the settings alone are compared.
    """
    keys = DatasetKeys(config.name)
    cursor = None if is_resting else f"{_TOO_LARGE}{time.time()}"
    known, made = _last_scan(context.instance, keys.catalog)
    is_other = inputs != known and not _is_young(config, storage)
    if not is_other and (is_resting or read_summary(storage.output(config), config) is not None):
        reason = f"not listed within {_LOOK_SECONDS} s: the source is left to the schedule `refresh`"
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    token = short_digest(inputs, made)
    hold = why_held(config, folder) or _hold(context.instance, keys, config, token)
    return dg.SensorResult(skip_reason=hold, cursor=cursor) if hold else _scan(keys, token, cursor)


def _scan(keys: DatasetKeys, token: str, cursor: str | None = None) -> dg.SensorResult:
    tags = {DATASET_TAG: keys.name, WORK_TAG: token, **_FIRST}
    return dg.SensorResult(run_requests=[dg.RunRequest(asset_selection=[keys.catalog], tags=tags)], cursor=cursor)


def _hold(instance: dg.DagsterInstance, keys: DatasetKeys, config: DatasetConfig, token: str) -> str | None:
    """Why a scan that is due does not start yet."""
    runs = active_runs(instance)
    if any(run.makes([keys.catalog]) for run in runs):
        return "a scan is under way"
    if any(_commits(run, keys, config) for run in runs):
        return "a snapshot is being committed, which a new catalog would make fail"
    attempts = attempts_at(instance, [token]).get(token)
    pause = patience_left(attempts, Patience()) if attempts else None
    return f"the scan failed: {pause}" if pause else None


def _commits(run: ActiveRun, keys: DatasetKeys, config: DatasetConfig) -> bool:
    indexes = [keys.sizes_index, *(keys.latents_index(latents.name) for latents in config.latents)]
    return run.makes(indexes) and run.seconds < _COMMIT_SECONDS


def _last_scan(instance: dg.DagsterInstance, key: dg.AssetKey) -> tuple[str | None, str]:
    """What the last catalog was made from, and which one it is."""
    event = instance.get_latest_materialization_event(key)
    if event is None or event.asset_materialization is None:
        return None, ""
    return (event.asset_materialization.tags or {}).get(INPUTS_TAG), f"{event.run_id} {event.timestamp}"


def _catalog_marks(output: Storage) -> list[str]:
    return [f"{entry.path} {entry.num_bytes} {entry.modified_seconds}" for entry in output.list(CATALOG_FOLDER)]


def _is_young(config: DatasetConfig, storage: StorageResource) -> bool:
    """Whether the metadata table may still be being written."""
    stamp = storage.metadata_stamp(config)
    return stamp is not None and abs(time.time_ns() - stamp.mtime_ns) < config.source.settle_seconds * _NS


def _is_resting(cursor: str | None) -> bool:
    if not (cursor or "").startswith(_TOO_LARGE):
        return False
    return time.time() - float(str(cursor).removeprefix(_TOO_LARGE)) < _LARGE_REST_SECONDS
