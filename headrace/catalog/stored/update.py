"""Updates the stored catalog: reads the previous one, scans the source, checks the result and stores it.

The asset `catalog`, `build.py` and the tests all use this sequence. The module also checks settings that would make a
scan useless, such as an output that cannot be written, and explains why a source has no usable recordings.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import polars as pl

from headrace.catalog.judging.acceptance import REJECT_ORDER, CatalogSettings
from headrace.catalog.rows.metadata_columns import check_group_by
from headrace.catalog.rows.metadata_rows import NAMESAKE_HINT
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.early_listing import EarlyListing
from headrace.catalog.scanning.scan import RecordingFigures, Scan, ScanTotals, settled_parts, table_of
from headrace.catalog.scanning.scan_parts import ScannedParts
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.header import HEADER_PATH, CatalogHeader, check_owner
from headrace.catalog.stored.header_lines import ScanRecord
from headrace.catalog.stored.moved_source import check_move
from headrace.catalog.stored.partitions import merged_names
from headrace.catalog.stored.parts import existing_catalog, known_catalog, last_catalog
from headrace.catalog.stored.storing import CatalogWriter
from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.corpus_tables import names_of_rows
from headrace.catalog.tables.metadata_files import MetadataTable
from headrace.catalog.tables.sorted_tables import sorted_table
from headrace.config.dataset import DatasetConfig
from headrace.config.source import Duplicates, SampleKind
from headrace.errors import CatalogError, ConfigError
from headrace.format.other_formats import GUIDE, recognised
from headrace.format.rejects import ASKED_FOR, RejectSubject, counted
from headrace.path_templates import path_columns
from headrace.sources.sources import Source
from headrace.stores.storage import LocalStorage, Storage

_SHOWN = 5


def update_catalog(  # noqa: PLR0913 - what a scan reads, where it writes, and how it runs
    config: DatasetConfig,
    source: Source,
    metadata: pl.DataFrame | MetadataTable | None,
    output: Storage,
    runtime: ScanRuntime | None = None,
    *,
    excluded: frozenset[str] = frozenset(),
    inputs: str = "",
    listed: EarlyListing | None = None,
) -> tuple[Scan, CatalogHeader]:
    """Scan the source and store its catalog. Parts whose content has not changed are not written.

    The scan waits for files that changed recently, see `headrace.catalog.scanning.scan.scan_settled`. Settings are
    checked before the source is listed. What an interrupted update has read is not read again
    (`headrace.catalog.scanning.checkpoint`).

    Args:
        config: the settings of the data set.
        source: its recordings.
        metadata: the metadata table; None without one.
        output: storage for the catalog.
        runtime: workers, clock, progress.
        excluded: keys from the table that `exclude` names; keys that are listed in the YAML are added.
        inputs: digest of what the scan depends on besides the files, taken before the tables were opened
            (`headrace.catalog.stored.unchanged.scan_inputs`); empty if the next scan must be made.
        listed: the files of the source, if it has been listed just before.

    Raises:
        ConfigError: the metadata table is invalid, the user's schema cannot be loaded, `group_by` does not name a
            metadata column, or the output cannot be written.
        CatalogError: the tables or the metadata do not pass their checks, all rows of the metadata have wrong paths, or
            the output belongs to another data set. Nothing is stored.
        FormatError: the stored catalog is damaged.
    """
    # Imported late: pandera imports pandas, a third of the start-up time of a run.
    from headrace.catalog.judging.validation import MetadataCheck, PartCheck  # noqa: PLC0415

    check_output(output)
    table = table_of(metadata)
    check_columns(table, config)
    metadata_check = None if config.source.validation is None else MetadataCheck(config.source.validation)
    settings = scan_settings(config, table, excluded)
    runtime = runtime or ScanRuntime()
    checkpoint = ScanCheckpoint(output)
    last = last_catalog(output)
    header = None if last is None else last.header
    if header is not None:
        check_owner(header.totals, config, f"{output.uri}/{HEADER_PATH}")
    known = known_catalog(output, header, runtime.probe_version())
    with closing(settled_parts(source, known, settings, table, runtime, checkpoint, listed)) as parts:
        is_merged = config.source.duplicates == Duplicates.GROUP
        merged = merged_names(parts.with_shared_audio(), config.group_by) if is_merged else {}
        writer = CatalogWriter(output, config, parts.probe_version, header, merged, runtime.table_bytes, source.uri)
        with closing(writer), closing(PartTables(runtime.table_bytes)) as rejects:
            check, figures = PartCheck(), RecordingFigures()
            for part in parts.finished():
                check.add(part.recordings)
                if metadata_check is not None:
                    metadata_check.add(part.recordings)
                writer.add(part.recordings)
                figures.add(part.recordings)
                rejects.append(part.rejected)
            for others in parts.other_rejects:
                rejects.append(others)
            rejected = sorted_table(rejects, REJECT_ORDER, runtime.table_bytes)
            rejects.close()
            if last is not None:
                check_move(last, parts.recordings, config, source.uri)
            check.finish(parts.recordings, rejected)
            finished = ScanTotals(writer.schema, rejected, figures, writer.num_recordings, writer.count_files())
            scan = Scan.of(parts, finished, partial(_stored, output))
            _check_rows(scan, config)
            if metadata_check is not None:
                metadata_check.finish(partial(_whole, parts))
            stored = writer.finish(rejected, parts.left_out, _record(scan, inputs), figures.durations)
    checkpoint.clear()
    return scan, stored


def scan_settings(
    config: DatasetConfig, table: MetadataTable | None, excluded: frozenset[str] = frozenset()
) -> CatalogSettings:
    """The settings of a scan. `excluded` are keys that are excluded besides those of the YAML."""
    named = frozenset(config.exclude) if isinstance(config.exclude, tuple) else frozenset()
    return CatalogSettings(
        settle_seconds=config.source.settle_seconds,
        min_seconds=config.source.min_seconds,
        samples=config.source.samples,
        columns=config.source.columns_in(() if table is None else names_of_rows(table)),
        where=config.source.where,
        fields=config.source.fields,
        key_form=config.source.key_form,
        span_tolerance_seconds=config.source.span_tolerance_seconds,
        duplicates=config.source.duplicates,
        excluded=named | excluded,
        audio=config.audio.format(),
        json_content=config.source.json_content,
        path_columns=config.source.path_columns,
        sidecars=config.source.sidecars,
        types=config.source.table.types,
        has_own_rows=config.source.has_own_rows,
        rows=config.source.rows if table is None else None,
    )


def _record(scan: Scan, inputs: str) -> ScanRecord:
    """Results of a scan besides the tables. Without `inputs` if files or rows wait for the next scan."""
    is_waiting = scan.num_unsettled or scan.num_waiting_rows
    return ScanRecord(
        inputs="" if is_waiting else inputs,
        num_found=scan.num_found,
        num_used=scan.num_used,
        num_known=scan.num_opened + scan.num_reused + scan.num_resumed,
        num_rows=scan.num_rows,
        num_left_out_rows=scan.num_left_out_rows,
        num_left_out_files=scan.num_left_out_files,
        num_merged_rows=scan.num_merged_rows,
        num_cut_rows=scan.num_cut_rows,
        seconds=scan.figures.seconds,
        num_bytes=scan.figures.num_bytes,
    )


def _whole(parts: ScannedParts, columns: Sequence[str] | None) -> pl.DataFrame:
    """The recordings of a scan, sorted by path."""
    tables = [part if columns is None else part.select(columns) for part in parts.recordings()]
    return pl.concat(tables).sort("path", maintain_order=True)


def _stored(output: Storage, columns: Sequence[str] | None) -> pl.DataFrame:
    """The recordings of the stored catalog."""
    return existing_catalog(output).recordings(columns)


def _check_rows(scan: Scan, config: DatasetConfig) -> None:
    """Raise `CatalogError` if no metadata row matches a file, and some match a file name in another folder.

    The paths are wrong then, and all samples would be built without metadata. Without such matches, the files are
    only missing.
    """
    rows = scan.rejected.filter(pl.col("origin") == RejectSubject.METADATA)
    if config.source.samples == SampleKind.ROWS:
        _check_some_row(scan, rows, config)
        return
    misspelt = rows.filter(pl.col("reason").str.contains(NAMESAKE_HINT, literal=True))
    if rows.height < scan.num_rows - scan.num_merged_rows - scan.num_left_out_rows or not misspelt.height:
        return
    path, reason = misspelt.select("path", "reason").row(0)
    raise CatalogError(
        f"metadata table {_tables(config)}: no row matches a file of {config.source.uri}; `path` must be "
        f"relative to source.uri. The table has, for example, {path!r} ({reason}). Correct the column `path`, or "
        "remove source.metadata"
    )


def _check_some_row(scan: Scan, rows: pl.DataFrame, config: DatasetConfig) -> None:
    """Raise `CatalogError` if every row of the metadata table is rejected, unless the YAML asks for all of it."""
    faults = rows.filter(~pl.col("code").is_in(list(ASKED_FOR)))
    if scan.num_recordings or scan.num_waiting_rows or faults.is_empty():
        return
    counts = ", ".join(f"{code}: {number}" for code, number in counted(rows["code"]))
    shown = "; ".join(faults.unique("code", keep="first", maintain_order=True)["reason"].head(_SHOWN))
    raise CatalogError(
        f"metadata table {_tables(config)}: all of its {rows.height} rows are rejected ({counts}), so there is "
        f"no sample. For example: {shown}. Correct the table, or the names in source.columns"
    )


def _tables(config: DatasetConfig) -> str:
    return ", ".join(config.source.metadata or (f"of source.uri {config.source.uri}",))


def check_output(output: Storage) -> None:
    """Raise `ConfigError` if a local output cannot be written."""
    if not isinstance(output, LocalStorage):
        return
    there = next(path for path in (output.root, *output.root.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"output.uri {output.uri}: {there} is a file, not a folder; name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(
            f"output.uri {output.uri}: this user may not write to the folder {there}; name another folder"
        )


def check_columns(metadata: MetadataTable | None, config: DatasetConfig) -> None:
    """Raise `ConfigError` if `group_by` does not name a metadata column."""
    if config.group_by is None:
        return
    source = config.source
    own = set() if source.fields or "path" in source.columns.model_fields_set else {"path"}
    types = {} if metadata is None else {name: kind for name, kind in metadata.schema.items() if name not in own}
    types |= {name: pl.String() for name in path_columns(source.path_columns or "")}
    if config.group_by in types or not source.sidecars:  # columns of sidecars are known when these are read
        check_group_by(config.group_by, types)


def why_no_recordings(scan: Scan, uri: str) -> str | None:
    """Explain why a source has no usable recordings, judging by its file names. None if it has some.

    Args:
        scan: the result of the scan.
        uri: the source, as in the YAML.
    """
    if scan.num_recordings:
        return None
    if not scan.num_found:
        return (
            f"source.uri {uri}: the folder has no files, apart from those that are hidden or that source.ignore names; "
            "name the folder of the recordings"
        )
    if scan.num_left_out_files == scan.num_found:
        return (
            f"source.uri {uri}: source.where leaves out the rows of all {scan.num_found} files; correct the condition"
        )
    said = f"source.uri {uri}: {scan.num_found} files found, none is usable"
    paths = scan.rejected.filter(pl.col("origin") == RejectSubject.FILE)["path"].to_list()
    if any(path.endswith(".tar") for path in paths):
        return f"{said}: tar files need no build, a loader reads them as they are (remote={uri!r})"
    found = recognised(paths)
    if found is None or found.has_recordings:
        return f"{said}: see the reasons of their rejection"
    return f"{said}: the folder is {found.what}, see {GUIDE}"
