"""Dagster metadata of columns: numbers of a partition or snapshot, and a summary of each column with a histogram."""

from collections.abc import Sequence

import dagster as dg

from headrace.assemble.update import PartitionBuild
from headrace.errors import HeadraceError
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.stores.storage import Storage
from headrace.upkeep.column_summary import SUMMARY_HEADERS, ColumnSummary, summarize_snapshot, summary_cells
from headrace_dagster.assets.metadata import Metadata, snapshot_metadata, table
from headrace_dagster.assets.pictures import column_histograms

_MOST_COLUMNS = 40


def columns_metadata(build: PartitionBuild) -> Metadata:
    """Numbers of a partition of columns. The summary is in the metadata of the index, which has all partitions."""
    manifest = build.manifest.manifest
    before = {shard.name for shard in build.previous.shards} if build.previous else set()
    return {
        "dagster/row_count": manifest.num_samples,
        "manifest": build.manifest.number,
        "rejected": len(manifest.refused),
        "shard_bytes": sum(shard.num_bytes for shard in manifest.shards),
        "shards": len(manifest.shards),
        "shards_written": len(build.written),
        "shards_reused": len(build.reused),
        "shards_removed": len(before - {shard.name for shard in manifest.shards}),
    }


def columns_index_metadata(storage: Storage, committed: NumberedSnapshot, *, is_new: bool) -> Metadata:
    """Numbers of a snapshot of columns, and a summary of each column with a histogram."""
    found = snapshot_metadata(storage, committed, is_new=is_new)
    try:
        summaries, num_shards = summarize_snapshot(storage, committed.snapshot)
    except HeadraceError as error:  # the checks and `headrace verify` say what is damaged
        return {**found, "pictures_missing": dg.MetadataValue.text(f"not summarized: {error}")}
    if not summaries:
        return found
    shown = summaries[:_MOST_COLUMNS]
    return {
        **found,
        "fits_snapshot": int(committed.snapshot.origin["audio_snapshot"]),
        "shards_summarized": num_shards,
        "columns_table": _summary_table(shown),
        "columns_picture": dg.MetadataValue.md(f"{_markdown(shown)}\n\n{column_histograms(shown)}"),
        "dagster/column_schema": dg.TableSchema([dg.TableColumn(s.label, str(s.spec.kind)) for s in summaries]),
    }


def _summary_table(summaries: Sequence[ColumnSummary]) -> dg.TableMetadataValue:
    rows = [dict(zip(SUMMARY_HEADERS, summary_cells(summary), strict=True)) for summary in summaries]
    return table(rows, dict.fromkeys(SUMMARY_HEADERS, "string"))


def _markdown(summaries: Sequence[ColumnSummary]) -> str:
    """A Markdown table with a line for each column."""
    lines = [" | ".join(SUMMARY_HEADERS), " | ".join("---" for _ in SUMMARY_HEADERS)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in summary_cells(summary)) for summary in summaries]
    return "\n".join(f"| {line} |" for line in lines)
