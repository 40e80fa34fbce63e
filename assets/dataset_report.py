"""The asset NAME/dataset_report: writes `report.html`, a page about the data set, into its output."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from headrace.assemble.stages import StageKind, stages_of
from headrace.assemble.views import WantedView, newest_view
from headrace.catalog.stored.header import read_current_header
from headrace.config.dataset import DatasetConfig
from headrace.errors import HeadraceError
from headrace.format.beside.views import NumberedView
from headrace.format.rejects import counted
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot
from headrace.stores.storage import Storage
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, short_digest
from headrace_dagster.assets.markdown import markdown_list
from headrace_dagster.assets.metadata import location
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import AssetRecords, newest_snapshot
from headrace_dagster.assets.report_summary import report_link, summary, where_words
from headrace_dagster.resources.storage import StorageResource

if TYPE_CHECKING:
    from headrace.report.page import Report
    from headrace.upkeep.column_summary import ColumnSummary

REPORT_PATH = "report.html"
REPORT_VERSION = 7
"""Raise it when the page's layout changes, so that existing pages are written again."""


def report_inputs(
    name: str,
    snapshots: Mapping[str, NumberedSnapshot],
    reasons: Sequence[tuple[str, int]],
    views: Mapping[str, NumberedView],
) -> str:
    """Digest of what a page depends on. `build.py` and the sensors compare it instead of rendering the page.

    Args:
        name: the data set.
        snapshots: the newest snapshot of every part, and of every set of columns.
        reasons: codes of rejected files, and how many files each has.
        views: the newest snapshot of every view.
    """
    chosen = [f"view {view} {numbered.snapshot.to_json().decode()}" for view, numbered in views.items()]
    held = [f"{part} {numbered.snapshot.digest}" for part, numbered in snapshots.items()]
    return short_digest(str(REPORT_VERSION), name, *held, *chosen, *(f"{code} {n}" for code, n in reasons))


def has_report(dataset: ProjectDataset, storage: StorageResource, records: AssetRecords) -> bool:
    """Whether the page exists and is up to date. Needs a snapshot of the audio."""
    config, output = dataset.config, storage.output(dataset.config)
    header = read_current_header(output, config)
    if header is None or not output.exists(REPORT_PATH):
        return False
    reasons = list(header.reasons.items())
    held = {**_snapshots(config, storage), **_columns(config, storage)}
    inputs = report_inputs(config.name, held, reasons, _views(config, output))
    return records.is_made_from(dataset.keys.dataset_report, inputs)


def _snapshots(config: DatasetConfig, storage: StorageResource) -> dict[str, NumberedSnapshot]:
    """The newest snapshot of the audio, and of each set of latents that has one."""
    audio, *latents = storage.parts(config).items()
    found = {part: newest_snapshot(shards) for part, shards in latents}
    return {audio[0]: read_snapshot(audio[1])} | {part: made for part, made in found.items() if made is not None}


def _columns(config: DatasetConfig, storage: StorageResource) -> dict[str, NumberedSnapshot]:
    stages, output = stages_of(config, StageKind.COLUMNS), storage.output(config)
    found = {stage.part: newest_snapshot(output.at(stage.folder)) for stage in stages}
    return {part: snapshot for part, snapshot in found.items() if snapshot is not None}


def _summaries(config: DatasetConfig, storage: StorageResource) -> "dict[str, list[ColumnSummary]]":
    """Summaries of the columns of each set that can be read; `headrace verify` says what is damaged."""
    from headrace.upkeep.column_summary import summarize_snapshot  # noqa: PLC0415 - only the report needs it

    found = {}
    for part, numbered in _columns(config, storage).items():
        with contextlib.suppress(HeadraceError):
            found[part], _ = summarize_snapshot(storage.folders(config)[part], numbered.snapshot)
    return found


def _views(config: DatasetConfig, output: Storage) -> dict[str, NumberedView]:
    found = {name: newest_view(output, WantedView.of(config, name)) for name in config.views}
    return {name: view for name, view in found.items() if view is not None}


def _read_report(config: DatasetConfig, storage: StorageResource) -> "Report":
    """The content of the page, from the catalog and the newest snapshots."""
    from headrace.report.catalog_figures import catalog_figures  # noqa: PLC0415 - likewise
    from headrace.report.contents import ReportInputs, collect_contents  # noqa: PLC0415 - likewise
    from headrace.report.page import Report  # noqa: PLC0415 - polars: not in a code server

    catalog = storage.catalog(config)
    rejected = catalog.rejected()
    latents = {entry.name: storage.latents(config, entry.name) for entry in config.latents}
    latents = {name: shards for name, shards in latents.items() if newest_snapshot(shards) is not None}
    inputs = ReportInputs(
        catalog_figures(catalog.partitions(), tuple(config.splits)),
        rejected,
        storage.audio(config),
        latents,
        config.audio.num_channels,
    )
    reasons = counted(rejected["code"])
    output = storage.output(config)
    return Report(
        config.name,
        _snapshots(config, storage),
        reasons,
        output.uri,
        collect_contents(inputs),
        _views(config, output),
        _summaries(config, storage),
    )


def dataset_report_asset(dataset: ProjectDataset) -> dg.AssetsDefinition:
    """The asset NAME/dataset_report of a data set."""
    config, keys = dataset.config, dataset.keys

    @dg.asset(
        key=keys.dataset_report,
        deps=[keys.loader_smoke_test, *map(keys.columns_index, config.column_sets), *map(keys.view, config.views)],
        group_name=config.name,
        owners=config.owners,
        kinds={"html"},
        description="One HTML file that needs no other files: what the data set holds, how it grew, sounds to listen "
        "to, what was rejected and why, and code to load the data set.",
    )
    def dataset_report(headrace_storage: StorageResource) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster wants it
        from headrace.report.page import render_report  # noqa: PLC0415 - polars: not in a code server

        with readable_failures():
            output = headrace_storage.output(config)
            report = _read_report(config, headrace_storage)
            page = render_report(report)
            output.write(REPORT_PATH, page)
            held = {**report.snapshots, **_columns(config, headrace_storage)}
        inputs = report_inputs(report.name, held, report.reasons, report.views)
        unreadable = report.contents.unreadable
        link, file = report_link(os.environ, config.name, REPORT_PATH), f"{output.uri}/{REPORT_PATH}"
        return dg.MaterializeResult(
            data_version=dg.DataVersion(inputs),
            metadata={
                "summary": dg.MetadataValue.md(summary(report.snapshots, report.reasons, where_words(link, file))),
                **({"page_link": dg.MetadataValue.url(link)} if link else {}),
                "page": location(output, REPORT_PATH),
                "page_bytes": len(page),
                **({"pictures_missing": dg.MetadataValue.md(markdown_list(unreadable))} if unreadable else {}),
            },
            tags={}
            if unreadable
            else {INPUTS_TAG: inputs},  # without the tag, the page is written again by the next build
        )

    return dataset_report
