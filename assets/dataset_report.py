"""NAME/dataset_report: a page about the data set, written beside it."""

from dataclasses import replace

import dagster as dg

from assets.events import INPUTS_TAG, OWNER, readable_failures, short_digest
from assets.keys import DatasetKeys
from assets.metadata import location
from assets.records import Records
from headrace.catalog_files import REJECTED_PATH, read_columns
from headrace.catalog_update import existing_catalog
from headrace.config import DatasetConfig
from headrace.report import Report, render_report
from headrace.report_contents import Place, collect
from headrace.snapshots import read_snapshot
from resources.storage import StorageResource

REPORT_PATH = "report.html"
REPORT_VERSION = 2
"""Raise it when the page looks different, so that it is drawn again."""


def read_report(config: DatasetConfig, storage: StorageResource) -> Report:
    """What the page has to say now."""
    rejected = read_columns(storage.output(config), REJECTED_PATH, ["code"])
    reasons = [] if rejected is None else rejected["code"].value_counts(sort=True).rows()
    snapshots = {part: read_snapshot(shards) for part, shards in storage.parts(config).items()}
    return Report(config.name, snapshots, reasons, storage.output(config).uri)


def _with_contents(report: Report, config: DatasetConfig, storage: StorageResource) -> Report:
    """The report with everything that is drawn."""
    catalog = existing_catalog(storage.output(config))
    latents = {entry.name: storage.latents(config, entry.name) for entry in config.latents}
    place = Place(
        catalog.recordings, catalog.rejected, config.layout(), config.group_by, storage.audio(config), latents
    )
    return replace(report, contents=collect(place))


def report_inputs(report: Report) -> str:
    """Digest of what a page is drawn from: cheap, so that `build.py` and the sensors need not draw it to know."""
    snapshots = [f"{part} {numbered.snapshot.to_json().decode()}" for part, numbered in report.snapshots.items()]
    return short_digest(str(REPORT_VERSION), report.name, *snapshots, *(f"{code} {n}" for code, n in report.reasons))


def has_report(config: DatasetConfig, storage: StorageResource, records: Records) -> bool:
    """Whether the page is there and says what there is to say now. Needs a snapshot of every part."""
    key, inputs = DatasetKeys(config.name).dataset_report, report_inputs(read_report(config, storage))
    return storage.output(config).exists(REPORT_PATH) and records.is_made_from(key, inputs)


def dataset_report_asset(config: DatasetConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)

    @dg.asset(
        key=keys.dataset_report,
        deps=[keys.loader_smoke_test],
        group_name=config.name,
        owners=[OWNER],
        kinds={"html"},
        description="One HTML page without outside parts: what the data set holds, how it grew, sounds to listen to, "
        "what was refused, and code to load it.",
    )
    def dataset_report(storage: StorageResource) -> dg.MaterializeResult:
        output = storage.output(config)
        with readable_failures():
            report = read_report(config, storage)
            page = render_report(_with_contents(report, config, storage))
            output.write(REPORT_PATH, page)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(report_inputs(report)),
            metadata={"page": location(output, REPORT_PATH), "bytes": len(page)},
            tags={INPUTS_TAG: report_inputs(report)},
        )

    return dataset_report
