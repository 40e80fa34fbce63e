"""The asset NAME/catalog: scans the source, and reports which partitions have other recordings than before."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from headrace.config.dataset import DatasetConfig
from headrace.config.operation import SchedulesConfig
from headrace.config.source import SampleKind
from headrace.upkeep.left_behind import parts_of_yaml
from headrace_dagster.assets.column_checks import read_tables, tables_spec
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, short_digest
from headrace_dagster.assets.listing_check import estimated_listing, listing_spec
from headrace_dagster.assets.metadata import catalog_metadata, left_folders, rejected_table
from headrace_dagster.assets.progress_lines import ProgressLines
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.recordings import changed_partitions
from headrace_dagster.assets.regression_checks import (
    COLUMN_TYPES,
    DROPPED_AUDIO,
    NEW_REJECTS,
    regression_result,
    regression_spec,
    types_result,
)
from headrace_dagster.resources.dagster_internals.cron import longest_pause
from headrace_dagster.resources.environment import cluster_of, counted_threads
from headrace_dagster.resources.progress import BuildProgress
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import Workers

if TYPE_CHECKING:
    from headrace.catalog.scanning.scan import Scan

CATALOG_VERSION = dg.DataVersion("by partition in recordings")
"""The data version of every catalog. The partitions depend on the catalog so that a backfill of everything makes it
first; they are stale if `recordings` has another version of them, and not whenever the catalog is another one
(docs/design/0095)."""
_GRACE = timedelta(hours=2)


def source_inputs(config: DatasetConfig, storage: StorageResource) -> str:
    """Digest of what a scan depends on besides the source's files: settings, the layout, the user's tables."""
    settings = [config.source.model_dump_json(), str(config.group_by), str(config.partitioning())]
    # The settings of segments decide which segments the keys of `exclude` name.
    excluded = [str(config.exclude), config.audio.model_dump_json()] if config.exclude else []
    # They also decide which keys the tables of columns may name.
    columns = [entry.model_dump_json() for entry in config.columns]
    joined = [*columns, config.audio.model_dump_json()] if columns else []
    return short_digest(*settings, *excluded, *joined, str(storage.table_stamps(config)))


def catalog_asset(dataset: ProjectDataset) -> dg.AssetsDefinition:
    """The asset NAME/catalog of a data set."""
    config, keys = dataset.config, dataset.keys
    checks = [
        dg.AssetCheckSpec(
            "conservation",
            asset=keys.catalog,
            blocking=True,
            description="found = recordings + rejected + unsettled + left out by source.where; also for rows, if "
            "these are samples",
        ),
        dg.AssetCheckSpec(
            "has_recordings",
            asset=keys.catalog,
            blocking=True,
            description="the catalog has at least one recording",
        ),
        regression_spec(NEW_REJECTS, keys.catalog),
        regression_spec(DROPPED_AUDIO, keys.catalog),
        listing_spec(keys.catalog),
        regression_spec(COLUMN_TYPES, keys.catalog),
        *([tables_spec(keys.catalog)] if config.columns else []),
    ]

    @dg.asset(
        key=keys.catalog,
        freshness_policy=_freshness(config.schedules),
        group_name=config.name,
        owners=config.owners,
        kinds={"polars", "parquet"},
        check_specs=checks,
        description="One row per recording, and one row with a reason per rejected file. Lists the whole source, opens "
        "only new and changed files, and reports to `recordings` which partitions have other recordings now.",
    )
    def catalog(
        context: dg.AssetExecutionContext,
        headrace_storage: StorageResource,
        headrace_workers: dg.ResourceParam[Workers],
        headrace_progress: dg.ResourceParam[BuildProgress],
    ) -> Iterator[dg.MaterializeResult[None]]:
        from headrace.catalog.compared.changes import compare_stored  # noqa: PLC0415 - likewise
        from headrace.catalog.compared.regressions import mark_reported, stored_regressions  # noqa: PLC0415 - likewise
        from headrace.catalog.compared.type_changes import column_types, type_changes  # noqa: PLC0415 - likewise
        from headrace.catalog.scanning.scan_runtime import ScanRuntime  # noqa: PLC0415 - polars: not in a code server
        from headrace.catalog.stored.parts import StoredCatalog, last_catalog  # noqa: PLC0415 - likewise
        from headrace.catalog.stored.unchanged import UserTables, refresh_catalog  # noqa: PLC0415 - likewise

        where = cluster_of(headrace_workers) or "the CPU"
        lines = ProgressLines(context.log.info, f"scan of {config.name}", where, 0, "files")
        context.log.info("%s: on %s, %s", lines.what, where, counted_threads(headrace_workers))

        def scanned(done: int, total: int) -> None:
            headrace_progress.scanned(done, total)
            lines.reach(done, total)

        with readable_failures():
            # Before the tables are read: a later change starts another scan.
            inputs = source_inputs(config, headrace_storage)
            runtime = ScanRuntime(
                workers=headrace_workers,
                progress=scanned,
                resuming=headrace_progress.resuming,
                settling=headrace_progress.settling,
            )
            output = headrace_storage.output(config)
            before = last_catalog(output)
            types = column_types(before)
            tables = UserTables(
                headrace_storage.table_stamps(config),
                partial(headrace_storage.metadata, config),
                partial(headrace_storage.excluded, config),
            )
            scan, header = refresh_catalog(config, headrace_storage.source(config), tables, output, runtime)
            stored = StoredCatalog(output, header)
            retyped = type_changes(types, column_types(stored), "the metadata")
            regressions = stored_regressions(stored, scan)
            left = left_folders(output, parts_of_yaml(config))
            joined = [read_tables(headrace_storage, config, keys.catalog, retyped)] if config.columns else []
            events = changed_partitions(context.instance, keys.recordings, header.fingerprints)
            for event in events:
                context.log_event(event)
            partitions = dict.fromkeys(str(event.partition) for event in events)
            changes = compare_stored(before, stored)
            listing = estimated_listing(keys.catalog, scan.seconds.get("list", 0.0))
            results = [regression_result(name, keys.catalog, regressions) for name in (NEW_REJECTS, DROPPED_AUDIO)]
            results.append(types_result(keys.catalog, retyped))
            yield dg.MaterializeResult(
                data_version=CATALOG_VERSION,
                metadata={**catalog_metadata(scan, changes, tuple(partitions)), **left},
                tags={INPUTS_TAG: inputs},
                check_results=[_conservation(scan, config), _has_recordings(scan, config), listing, *results, *joined],
            )
            if scan.num_recordings:  # an empty scan goes no further, and is not what the next scan is compared with
                mark_reported(output, regressions)

    return catalog


def _freshness(schedules: SchedulesConfig) -> dg.FreshnessPolicy | None:
    """Warns when one scheduled refresh did not happen, fails when two did not; None if `refresh` is disabled."""
    if not schedules.refresh.enabled:
        return None
    period = longest_pause(schedules.refresh.cron, schedules.time_zone)
    return dg.FreshnessPolicy.time_window(warn_window=period + _GRACE, fail_window=2 * period + _GRACE)


def _conservation(scan: "Scan", config: DatasetConfig) -> dg.AssetCheckResult:
    num_recordings = scan.num_used
    num_rejected = int((scan.rejected["origin"] == "file").sum())
    passed = scan.num_found == num_recordings + num_rejected + scan.num_unsettled + scan.num_left_out_files
    rows = {}
    if config.source.samples == SampleKind.ROWS:
        rejected_rows = int((scan.rejected["origin"] == "metadata").sum())
        rows = {
            "rows_found": scan.num_rows,
            "rows_accepted": scan.num_recordings,
            "rows_rejected": rejected_rows,
            "rows_merged": scan.num_merged_rows,
            "rows_waiting": scan.num_waiting_rows,
        }
        passed &= 2 * scan.num_rows == sum(rows.values()) + scan.num_left_out_rows
    if config.source.where is not None or scan.num_left_out_rows:
        rows |= {"rows_left_out": scan.num_left_out_rows, "files_left_out": scan.num_left_out_files}
    return dg.AssetCheckResult(
        check_name="conservation",
        passed=passed,
        metadata={
            "files_found": scan.num_found,
            "recordings": num_recordings,
            "rejected": num_rejected,
            "files_unsettled": scan.num_unsettled,
            **rows,
        },
    )


def _has_recordings(scan: "Scan", config: DatasetConfig) -> dg.AssetCheckResult:
    from headrace.catalog.stored.update import why_no_recordings  # noqa: PLC0415 - it imports polars

    return dg.AssetCheckResult(
        check_name="has_recordings",
        passed=scan.num_recordings > 0,
        metadata={"rejected_table": rejected_table(scan.rejected)},
        description=why_no_recordings(scan, config.source.uri),
    )
