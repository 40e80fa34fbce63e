"""NAME/catalog: one scan of the source, and the news about each partition's recordings."""

from datetime import timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import dagster as dg
from dagster._utils.schedules import cron_string_iterator

from assets.events import INPUTS_TAG, OWNER, readable_failures, short_digest
from assets.keys import DatasetKeys
from assets.metadata import catalog_metadata, left_latents, rejected_table
from assets.recordings import news
from headrace.config import DatasetConfig, SchedulesConfig
from resources.progress import Progress
from resources.storage import StorageResource
from resources.workers import Workers

if TYPE_CHECKING:
    from headrace.catalog import Scan

_GRACE = timedelta(hours=2)
_A_FRIDAY = 1_709_251_200.0  # the pause of a weekend is among the first
_NUM_TICKS = 400  # a year of nights


def source_inputs(config: DatasetConfig, storage: StorageResource) -> str:
    """Digest of what a scan depends on besides the source's files: its settings, the layout, the metadata table."""
    settings = [config.source.model_dump_json(), str(config.group_by), str(config.layout())]
    return short_digest(*settings, str(storage.metadata_stamp(config)))


def catalog_asset(config: DatasetConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)
    checks = [
        dg.AssetCheckSpec(
            "conservation",
            asset=keys.catalog,
            blocking=True,
            description="found = recordings + rejected + unsettled",
        ),
        dg.AssetCheckSpec(
            "has_recordings",
            asset=keys.catalog,
            blocking=True,
            description="at least one recording can be used",
        ),
    ]

    @dg.asset(
        key=keys.catalog,
        freshness_policy=_freshness(config.schedules),
        group_name=config.name,
        owners=[OWNER],
        kinds={"polars", "parquet"},
        check_specs=checks,
        description="One row per recording found, one per refused file with the reason. Scans the whole source, opens "
        "only what is new or changed, and tells `recordings` which partitions that touches.",
    )
    def catalog(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        workers: dg.ResourceParam[Workers],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        from headrace.catalog import ScanRuntime  # noqa: PLC0415 - polars: not in a code server
        from headrace.catalog_update import update_catalog  # noqa: PLC0415 - likewise

        inputs = source_inputs(config, storage)  # before the table is read: a later change of it is news
        with readable_failures():
            runtime = ScanRuntime(num_threads=workers.count, progress=progress.scanned, settling=progress.settling)
            scan, summary = update_catalog(
                config,
                storage.source(config),
                storage.metadata(config),
                storage.output(config),
                runtime,
            )
            left = left_latents(storage.output(config), {latents.name for latents in config.latents})
        events = news(context.instance, keys.recordings, summary.fingerprints)
        for event in events:
            context.log_event(event)
        changed = dict.fromkeys(str(event.partition) for event in events)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(summary.digest),
            metadata={**catalog_metadata(scan, tuple(changed)), **left},
            tags={INPUTS_TAG: inputs},
            check_results=[_conservation(scan), _has_recordings(scan)],
        )

    return catalog


def _freshness(schedules: SchedulesConfig) -> dg.FreshnessPolicy | None:
    """Late when one nightly refresh has not come, too late when two have not; None where none is to come."""
    if not schedules.refresh.enabled:
        return None
    ticks = islice(cron_string_iterator(_A_FRIDAY, schedules.refresh.cron, schedules.time_zone), _NUM_TICKS)
    period = max(later - tick for tick, later in pairwise(ticks))
    return dg.FreshnessPolicy.time_window(warn_window=period + _GRACE, fail_window=2 * period + _GRACE)


def _conservation(scan: "Scan") -> dg.AssetCheckResult:
    refused = int((scan.rejected["origin"] == "file").sum())
    return dg.AssetCheckResult(
        check_name="conservation",
        passed=scan.num_found == scan.recordings.height + refused + scan.num_unsettled,
        metadata={
            "found": scan.num_found,
            "recordings": scan.recordings.height,
            "rejected": refused,
            "unsettled": scan.num_unsettled,
        },
    )


def _why_none(scan: "Scan") -> str:
    if not scan.num_found:
        return "source.uri holds no files"
    return f"{scan.num_found} files found, none can be used: see the reasons"


def _has_recordings(scan: "Scan") -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name="has_recordings",
        passed=scan.recordings.height > 0,
        metadata={"rejected": rejected_table(scan.rejected)},
        description=None if scan.recordings.height else _why_none(scan),
    )
