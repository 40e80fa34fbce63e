"""NAME/dataset_report: a page about the data set, written beside it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.events import INPUTS_TAG, OWNER, readable_failures, short_digest
from assets.keys import DatasetKeys
from assets.metadata import location
from assets.records import Records
from headrace.catalog_summary import read_summary
from headrace.config import DatasetConfig
from headrace.rejects import counted
from headrace.snapshots import NumberedSnapshot, read_snapshot
from resources.storage import StorageResource

if TYPE_CHECKING:
    from headrace.report import Report

REPORT_PATH = "report.html"
REPORT_VERSION = 4
"""Raise it when the page looks different, so that it is drawn again."""


def report_inputs(name: str, snapshots: Mapping[str, NumberedSnapshot], reasons: Sequence[tuple[str, int]]) -> str:
    """Digest of what a page is drawn from: cheap, so that `build.py` and the sensors need not draw it to know.

    Args:
        name: of the data set.
        snapshots: the newest one of every part.
        reasons: why files were refused, and how many.
    """
    held = [f"{part} {numbered.snapshot.to_json().decode()}" for part, numbered in snapshots.items()]
    return short_digest(str(REPORT_VERSION), name, *held, *(f"{code} {n}" for code, n in reasons))


def has_report(config: DatasetConfig, storage: StorageResource, records: Records) -> bool:
    """Whether the page is there and says what there is to say now. Needs a snapshot of every part."""
    output = storage.output(config)
    summary = read_summary(output, config)
    if summary is None or not output.exists(REPORT_PATH):
        return False
    inputs = report_inputs(config.name, _snapshots(config, storage), list(summary.reasons.items()))
    return records.is_made_from(DatasetKeys(config.name).dataset_report, inputs)


def _snapshots(config: DatasetConfig, storage: StorageResource) -> dict[str, NumberedSnapshot]:
    return {part: read_snapshot(shards) for part, shards in storage.parts(config).items()}


def _read_report(config: DatasetConfig, storage: StorageResource) -> "Report":
    """Everything that the page has to say now."""
    from headrace.report import Report  # noqa: PLC0415 - polars: not in a code server
    from headrace.report_contents import Place, collect  # noqa: PLC0415 - likewise

    catalog = storage.catalog(config)
    latents = {entry.name: storage.latents(config, entry.name) for entry in config.latents}
    place = Place(
        catalog.recordings,
        catalog.rejected,
        config.layout(),
        config.group_by,
        storage.audio(config),
        latents,
        config.audio.num_channels,
    )
    reasons = counted(catalog.rejected["code"])
    return Report(config.name, _snapshots(config, storage), reasons, storage.output(config).uri, collect(place))


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
        from headrace.report import render_report  # noqa: PLC0415 - polars: not in a code server

        output = storage.output(config)
        with readable_failures():
            report = _read_report(config, storage)
            page = render_report(report)
            output.write(REPORT_PATH, page)
        inputs = report_inputs(report.name, report.snapshots, report.reasons)
        unreadable = report.contents.unreadable
        return dg.MaterializeResult(
            data_version=dg.DataVersion(inputs),
            metadata={
                "page": location(output, REPORT_PATH),
                "bytes": len(page),
                **({"pictures": "\n".join(unreadable)} if unreadable else {}),
            },
            tags={} if unreadable else {INPUTS_TAG: inputs},  # once the shard is mended, the page is drawn again
        )

    return dataset_report
