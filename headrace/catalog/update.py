"""Updates the stored catalog: reads the previous one, scans the source, checks the result and stores it.

The asset `catalog`, `build.py` and the tests all use this sequence. The module also checks settings that would make a
scan useless, such as an output that cannot be written, and explains why a source has no usable recordings.
"""

import os
from collections.abc import Mapping

import polars as pl

from headrace.catalog.acceptance import CatalogSettings
from headrace.catalog.checkpoint import ScanCheckpoint
from headrace.catalog.listing import SourceStamps, concatenated, stamps_of
from headrace.catalog.metadata_columns import check_group_by
from headrace.catalog.metadata_rows import NAMESAKE_HINT
from headrace.catalog.parquet_files import read_catalog, write_catalog, write_if_new
from headrace.catalog.partitions import partition_fingerprints
from headrace.catalog.scan import Catalog, Scan, ScanRuntime, scan_settled, with_decode_rejects
from headrace.catalog.sources import Source
from headrace.catalog.summary import SUMMARY_PATH, CatalogSummary, grouping_of
from headrace.config.dataset import DatasetConfig
from headrace.config.source import check_samples
from headrace.errors import CatalogError, ConfigError
from headrace.format.manifests import NumberedManifest
from headrace.format.other_formats import GUIDE, recognised
from headrace.format.rejects import RejectSubject, counted
from headrace.stores.storage import LocalStorage, Storage


def update_catalog(  # noqa: PLR0913 - what a scan reads, where it writes, and how it runs
    config: DatasetConfig,
    source: Source,
    metadata: pl.DataFrame | None,
    output: Storage,
    runtime: ScanRuntime | None = None,
    *,
    excluded: frozenset[str] = frozenset(),
) -> tuple[Scan, CatalogSummary]:
    """Scan the source and store its catalog. Files whose content has not changed are not written.

    The scan waits for files that changed recently, see `headrace.catalog.scan.scan_settled`. Settings are checked
    before the source is listed. What an interrupted update has read is not read again (`headrace.catalog.checkpoint`).

    Args:
        config: the settings of the data set.
        source: its recordings.
        metadata: the metadata table; None without one.
        output: storage for the catalog.
        runtime: workers, clock, progress.
        excluded: keys from the table that `exclude` names; keys that are listed in the YAML are added.

    Raises:
        ConfigError: the metadata table is invalid, the user's schema cannot be loaded, `group_by` does not name a
            metadata column, the output cannot be written, or `source.samples` is not supported yet.
        CatalogError: the tables or the metadata do not pass their checks, or all rows of the metadata have wrong paths.
            Nothing is stored.
        FormatError: the stored catalog is damaged.
    """
    # Imported late: pandera imports pandas, a third of the start-up time of a run.
    from headrace.catalog.checks import check_catalog, check_metadata, load_schema  # noqa: PLC0415

    check_samples(config.source)
    check_output(output)
    check_columns(metadata, config)
    if config.source.validation is not None:
        load_schema(config.source.validation)
    listed = frozenset(config.exclude) if isinstance(config.exclude, tuple) else frozenset()
    settings = CatalogSettings(
        settle_seconds=config.source.settle_seconds,
        min_seconds=config.source.min_seconds,
        key_column=config.source.key_column,
        duplicates=config.source.duplicates,
        excluded=listed | excluded,
        audio=config.audio.format(),
    )
    checkpoint = ScanCheckpoint(output)
    scan = scan_settled(source, read_catalog(output), settings, metadata, runtime, checkpoint=checkpoint)
    check_catalog(scan.recordings, scan.rejected)
    _check_rows(scan, config)
    if config.source.validation is not None:
        check_metadata(scan.recordings, config.source.validation)
    summary = store_catalog(output, scan.catalog, config)
    checkpoint.clear()
    return scan, summary


def _check_rows(scan: Scan, config: DatasetConfig) -> None:
    """Raise `CatalogError` if no metadata row matches a file, and some match a file name in another folder.

    The paths are wrong then, and all samples would be built without metadata. Without such matches, the files are
    only missing.
    """
    rows = scan.rejected.filter(pl.col("origin") == RejectSubject.METADATA)
    misspelt = rows.filter(pl.col("reason").str.contains(NAMESAKE_HINT, literal=True))
    if rows.height < scan.num_rows - scan.num_merged_rows or not misspelt.height:
        return
    path, reason = misspelt.select("path", "reason").row(0)
    raise CatalogError(
        f"metadata table {config.source.metadata or ''}: no row matches a file of {config.source.uri}; `path` must be "
        f"relative to source.uri. The table has, for example, {path!r} ({reason}). Correct the column `path`, or "
        "remove source.metadata"
    )


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


def check_columns(metadata: pl.DataFrame | None, config: DatasetConfig) -> None:
    """Raise `ConfigError` if `group_by` does not name a metadata column."""
    if config.group_by is None:
        return
    own = {"path", config.source.key_column}
    types = {} if metadata is None else {name: kind for name, kind in metadata.schema.items() if name not in own}
    check_group_by(config.group_by, types)


def why_no_recordings(scan: Scan, uri: str) -> str | None:
    """Explain why a source has no usable recordings, judging by its file names. None if it has some.

    Args:
        scan: the result of the scan.
        uri: the source, as in the YAML.
    """
    if scan.recordings.height:
        return None
    if not scan.num_found:
        return f"source.uri {uri}: the folder has no files; name the folder of the recordings"
    said = f"source.uri {uri}: {scan.num_found} files found, none is usable"
    paths = scan.rejected.filter(pl.col("origin") == RejectSubject.FILE)["path"].to_list()
    if any(path.endswith(".tar") for path in paths):
        return f"{said}: tar files need no build, a loader reads them as they are (remote={uri!r})"
    found = recognised(paths)
    if found is None or found.has_recordings:
        return f"{said}: see the reasons of their rejection"
    return f"{said}: the folder is {found.what}, see {GUIDE}"


def existing_catalog(output: Storage) -> Catalog:
    """The stored catalog.

    Raises:
        CatalogError: there is no catalog yet.
    """
    catalog = read_catalog(output)
    if catalog is None:
        raise CatalogError(
            f"{output.uri}: there is no catalog yet; materialize the asset `catalog` first, or run build.py"
        )
    return catalog


def store_decode_rejects(
    output: Storage, catalog: Catalog, manifests: Mapping[str, NumberedManifest], config: DatasetConfig
) -> None:
    """Replace the rejected rows of origin `decode` by the rejections of all manifests.

    Nothing is stored if another scan has replaced the catalog that the manifests were built from.
    """
    refused = [refusal for numbered in manifests.values() for refusal in numbered.manifest.refused]
    columns = {"path": pl.String, "code": pl.String, "reason": pl.String}
    rows = [(refusal.path, refusal.code, refusal.reason) for refusal in refused]
    current = existing_catalog(output)
    if current.digest == catalog.digest:
        store_catalog(output, with_decode_rejects(current, pl.DataFrame(rows, schema=columns, orient="row")), config)


def store_catalog(output: Storage, catalog: Catalog, config: DatasetConfig) -> CatalogSummary:
    """Write both tables, then their summary. After a crash in between, the old summary does not match and is ignored.

    Raises:
        ConfigError: `group_by` does not name a metadata column. The tables are stored, without a summary.
    """
    tables = write_catalog(output, catalog)
    recordings = catalog.recordings
    summary = CatalogSummary(
        digest=catalog.digest,
        seconds=float(recordings["duration_seconds"].sum()),
        fingerprints=partition_fingerprints(recordings, config),
        grouping=grouping_of(config),
        reasons=dict(counted(catalog.rejected["code"])),
        stamps=_stamps(catalog),
        tables=tables,
    )
    write_if_new(output, SUMMARY_PATH, summary.to_bytes())
    return summary


def _stamps(catalog: Catalog) -> SourceStamps:
    """Stamps of all files of the scan, except those left for the next scan."""
    files = catalog.rejected.filter(pl.col("origin") == RejectSubject.FILE)
    parts = (catalog.recordings, files)
    return concatenated([stamps_of(part["path"], part["num_bytes"], part["mtime_ns"]) for part in parts])
