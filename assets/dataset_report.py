"""NAME/dataset_report: a page about the data set, written beside it."""

import dagster as dg

from assets.events import INPUTS_TAG, OWNER, readable_failures, short_digest
from assets.keys import DatasetKeys
from assets.metadata import location
from headrace.catalog_update import existing_catalog
from headrace.config import DatasetConfig
from headrace.report import Report, render_report
from headrace.snapshots import read_snapshot
from resources.storage import StorageResource

REPORT_PATH = "report.html"


def read_report(config: DatasetConfig, storage: StorageResource) -> Report:
    """What the page has to say now."""
    rejected = existing_catalog(storage.output(config)).rejected
    snapshots = {part: read_snapshot(shards) for part, shards in storage.parts(config).items()}
    return Report(config.name, snapshots, rejected["code"].value_counts(sort=True).rows())


def report_inputs(page: bytes) -> str:
    """Digest of the page: it is cheap to draw, so it is its own fingerprint."""
    return short_digest(page.decode())


def dataset_report_asset(config: DatasetConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)

    @dg.asset(
        key=keys.dataset_report,
        deps=[keys.loader_smoke_test],
        group_name=config.name,
        owners=[OWNER],
        kinds={"html"},
        description="One HTML page without outside parts: what the data set holds, its snapshots, what was refused.",
    )
    def dataset_report(storage: StorageResource) -> dg.MaterializeResult:
        output = storage.output(config)
        with readable_failures():
            page = render_report(read_report(config, storage))
            output.write(REPORT_PATH, page)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(report_inputs(page)),
            metadata={"page": location(output, REPORT_PATH), "bytes": len(page)},
            tags={INPUTS_TAG: report_inputs(page)},
        )

    return dataset_report
