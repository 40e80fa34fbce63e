"""The sensor NAME_source_changes: lists the source, and starts a scan when it differs from the catalog."""

import time
from dataclasses import dataclass

import dagster as dg

from headrace.assemble.stages import stages_of
from headrace.assemble.waves import Pause, RunPatience, patience_left
from headrace.catalog.stored.header import header_version, read_current_header, read_stamps
from headrace.config.dataset import DatasetConfig
from headrace.sources.listing import SourceStamps
from headrace.sources.source_changes import source_difference
from headrace_dagster.assets.catalog import source_inputs
from headrace_dagster.assets.events import INPUTS_TAG, short_digest
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.listing_check import reported_listing
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import DATASET_TAG, SCAN_TAG
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.activity import ActiveRun, active_runs, attempts_at
from headrace_dagster.sensors.backfills import graph_of, pending_runs
from headrace_dagster.sensors.cancelled_runs import note_cancelled_scans
from headrace_dagster.sensors.loaded import ConfigOrigin
from headrace_dagster.sensors.source_listing import SourceListing

_INTERVAL_SECONDS = 1  # every round of the daemon, which takes 5 s
_COMMIT_SECONDS = 30.0
_FIRST = {"dagster/priority": "1"}
_NS = 1_000_000_000


def source_changes_sensor(
    dataset: ProjectDataset, storage: StorageResource, origin: ConfigOrigin | None = None
) -> dg.SensorDefinition:
    """The sensor of a data set, whose relative URIs `storage` resolves and whose configuration is from `origin`."""
    config, keys, listings = dataset.config, dataset.keys, SourceListing()

    @dg.sensor(
        name=f"{config.name}_source_changes",
        target=dg.AssetSelection.assets(keys.catalog),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists the source and compares names, sizes and times with the catalog. Starts a scan when files "
        f"differ that have not changed for {config.source.settle_seconds:g} s. A large source is listed over several "
        "ticks; one that takes more than an hour is left to the schedule `refresh`.",
    )
    def source_changes(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        look, was_late = _Look(context, dataset, storage, origin), listings.is_late
        inputs, version = source_inputs(config, storage), header_version(storage.output(config))
        listing = listings.go_on(storage.source(config), version, time.time())
        found = look.at_settings(inputs, listings.says) if listing is None else look.at(listing, inputs, version)
        said = reported_listing(keys.catalog, listings.num_files, is_late=listings.is_late)
        return dg.SensorResult(
            run_requests=[] if found.token is None else [_scan(dataset, found.token)],
            skip_reason=found.reason,
            cursor=found.cursor,
            asset_events=[said] if listings.is_late != was_late else [],
        )

    return source_changes


def _scan(dataset: ProjectDataset, token: str) -> dg.RunRequest:
    tags = {DATASET_TAG: dataset.name, SCAN_TAG: token, **_FIRST}
    return dg.RunRequest(asset_selection=[dataset.keys.catalog], tags=tags)


@dataclass(frozen=True, slots=True)
class _Found:
    """Result of a tick: the token of a scan that is due, or why none starts; and the next cursor."""

    token: str | None = None
    reason: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class _Look:
    """One tick of the sensor."""

    context: dg.SensorEvaluationContext
    dataset: ProjectDataset
    storage: StorageResource
    origin: ConfigOrigin | None

    def at(self, listing: SourceStamps, inputs: str, version: str) -> _Found:
        """Compare a listing, and the settings, with the catalog of this version."""
        config, output = self.dataset.config, self.storage.output(self.dataset.config)
        if header_version(output) != version:
            return self._nothing("the catalog changed while the source was listed: it is listed again")
        mark = short_digest(inputs, listing.digest, version)
        if self.context.cursor == mark:
            return self._not_due("no change", mark)
        catalog = read_current_header(output, config)
        known_files = None if catalog is None else read_stamps(output, catalog)
        difference = source_difference(listing, known_files, config.source.settle_seconds, time.time_ns())
        known, made = _last_scan(self.context.instance, self.dataset.keys.catalog)
        is_other = inputs != known and not _is_young(config, self.storage)
        if not (difference.is_changed or is_other):
            waiting = difference.num_waiting or inputs != known
            reason = f"{difference.num_waiting} files are still settling" if waiting else "no change"
            return self._not_due(reason, None if waiting else mark)
        return self._due(short_digest(inputs, difference.digest, made))

    def at_settings(self, inputs: str, says: str) -> _Found:
        """Without a listing, a scan is due if there is no usable catalog, or if settings changed."""
        config = self.dataset.config
        known, made = _last_scan(self.context.instance, self.dataset.keys.catalog)
        is_other = inputs != known and not _is_young(config, self.storage)
        if not is_other and read_current_header(self.storage.output(config), config) is not None:
            return self._nothing(says)
        return self._due(short_digest(inputs, made))

    def _not_due(self, reason: str, cursor: str | None) -> _Found:
        note_cancelled_scans(self.context.instance, self.dataset.keys.catalog)
        return _Found(reason=reason, cursor=cursor)

    def _due(self, token: str) -> _Found:
        note_cancelled_scans(self.context.instance, self.dataset.keys.catalog, token)
        hold = _hold(self.context, self.dataset, self.origin, token)
        return self._nothing(hold) if hold else _Found(token=token)

    def _nothing(self, reason: str) -> _Found:
        return _Found(reason=reason, cursor=self.context.cursor)


def _hold(
    context: dg.SensorEvaluationContext, dataset: ProjectDataset, origin: ConfigOrigin | None, token: str
) -> str | None:
    """Why a scan that is due does not start yet; None if it can start."""
    if origin is not None and (held := origin.why_held(dataset.config)):
        return held
    instance, keys, config = context.instance, dataset.keys, dataset.config
    # What a backfill starts meanwhile is in both lists; in the other order, it could be in neither.
    runs = [*pending_runs(instance, graph_of(context)), *active_runs(instance, dataset)]
    if any(run.makes([keys.catalog]) for run in runs):
        return "a scan is in progress"
    if any(_commits(run, keys, config) for run in runs):
        return "a snapshot is being committed, and a new catalog would make the commit fail"
    attempts = attempts_at(instance, [token], [SCAN_TAG]).get(token)
    pause = patience_left(attempts, RunPatience()) if attempts else None
    if pause is Pause.CANCELLED:
        return f"the scan was {pause}"
    return f"the scan failed: {pause}" if pause else None


def _commits(run: ActiveRun, keys: DatasetKeys, config: DatasetConfig) -> bool:
    indexes = [*map(keys.index, stages_of(config)), *map(keys.view, config.views)]
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
