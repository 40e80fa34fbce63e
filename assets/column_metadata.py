"""Dagster metadata of columns: numbers of a partition or snapshot, and a summary of each column with a histogram."""

from collections.abc import Iterator, Sequence

import dagster as dg

from headrace.build.update import PartitionBuild
from headrace.errors import HeadraceError
from headrace.format.column_files import read_columns
from headrace.format.columns import ColumnTable
from headrace.format.snapshots import NumberedSnapshot, read_table
from headrace.stores.storage import Storage
from headrace.tools.column_summary import ColumnSummary, summarize
from headrace_dagster.assets.metadata import Metadata, snapshot_metadata, table
from headrace_dagster.assets.pictures import column_histograms

_MOST_BYTES = 16 << 20  # of files that are read for a summary
_MOST_COLUMNS = 40


def columns_metadata(build: PartitionBuild) -> Metadata:
    """Numbers of a partition of columns. The summary is in the metadata of the index, which has all partitions."""
    manifest = build.manifest.manifest
    before = {shard.name for shard in build.previous.shards} if build.previous else set()
    return {
        "dagster/row_count": manifest.num_samples,
        "manifest": build.manifest.number,
        "samples": manifest.num_samples,
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
    names = read_table(storage, committed.snapshot).names()
    sizes = read_table(storage, committed.snapshot).num_bytes
    chosen = _chosen(names, int(sizes.sum()))
    try:
        summaries = summarize(_tables(storage, chosen))
    except HeadraceError as error:  # the checks and `headrace verify` say what is damaged
        return {**found, "pictures_missing": dg.MetadataValue.text(f"not summarized: {error}")}
    if not summaries:
        return found
    shown = summaries[:_MOST_COLUMNS]
    return {
        **found,
        "fits_snapshot": int(committed.snapshot.origin["audio_snapshot"]),
        "shards_summarized": len(chosen),
        "columns_table": _summary_table(shown),
        "columns_picture": dg.MetadataValue.md(f"{_markdown(shown)}\n\n{column_histograms(shown)}"),
        "dagster/column_schema": dg.TableSchema([dg.TableColumn(s.label, str(s.spec.kind)) for s in summaries]),
    }


def _chosen(names: Sequence[str], total_bytes: int) -> Sequence[str]:
    """All shards, or some at equal distances if all of them are large."""
    return names[:: max(1, -(-total_bytes // _MOST_BYTES))]


def _tables(storage: Storage, names: Sequence[str]) -> Iterator[ColumnTable]:
    return (read_columns(storage, name) for name in names)


def _summary_table(summaries: Sequence[ColumnSummary]) -> dg.TableMetadataValue:
    rows = [
        {"column": summary.label, **dict(zip(_HEADERS[1:], _cells(summary)[1:], strict=True))} for summary in summaries
    ]
    return table(rows, dict.fromkeys(_HEADERS, "string"))


_HEADERS = ("column", "type", "nulls", "distinct", "smallest", "median", "largest", "most frequent")


def _markdown(summaries: Sequence[ColumnSummary]) -> str:
    """A Markdown table with a line for each column."""
    lines = [" | ".join(_HEADERS), " | ".join("---" for _ in _HEADERS)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in _cells(summary)) for summary in summaries]
    return "\n".join(f"| {line} |" for line in lines)


def _cells(summary: ColumnSummary) -> list[str]:
    unit = " characters" if summary.spec.kind.is_text else ""
    points = [f"{value:.6g}{unit}" for value in summary.quantiles]
    low, middle, high = (points[0], points[2], points[-1]) if points else ("", "", "")
    frequent = ", ".join(f"{value} ({count})" for value, count in summary.most_frequent)
    nulls = f"{summary.num_nulls} ({summary.share_of_nulls:.1%})"
    return [summary.label, str(summary.spec.kind), nulls, str(summary.num_distinct), low, middle, high, frequent]
