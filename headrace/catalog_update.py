"""Bringing the stored catalog up to date: read what is known, scan, check, write, sum up.

Owns that sequence, so that the asset, `build.py` and tests do the same. Each step is another module's.
"""

from collections.abc import Mapping

import polars as pl

from headrace.catalog import Catalog, CatalogSettings, Scan, ScanRuntime, scan_settled, with_decode_rejects
from headrace.catalog_files import read_catalog, write_catalog, write_if_new
from headrace.catalog_partitions import partition_fingerprints
from headrace.catalog_rows import NAMESAKE_HINT
from headrace.catalog_summary import SUMMARY_PATH, CatalogSummary, grouping_of
from headrace.config import DatasetConfig
from headrace.errors import CatalogError
from headrace.manifests import NumberedManifest
from headrace.rejects import Origin, Reject, counted
from headrace.sources import Source
from headrace.stamps import Stamps, joined, stamps_of
from headrace.storage import Storage


def update_catalog(
    config: DatasetConfig,
    source: Source,
    metadata: pl.DataFrame | None,
    output: Storage,
    runtime: ScanRuntime | None = None,
) -> tuple[Scan, CatalogSummary]:
    """Scan the source and store what was found; nothing is written where nothing changed.

    Young files are waited for, see `headrace.catalog.scan_settled`.

    Raises:
        ConfigError: the metadata table cannot be used, the user's schema cannot be found, or `group_by` names no
            metadata column.
        CatalogError: the tables break a promise, no row of the metadata names a file though some name one of another
            folder, or the metadata does not pass the user's schema; nothing is stored.
        FormatError: the stored catalog is damaged.
    """
    # pandera brings pandas, a third of what a run takes to start: only a scan pays for it.
    from headrace.catalog_checks import check_catalog, check_metadata  # noqa: PLC0415

    settings = CatalogSettings(config.source.settle_seconds, config.source.min_seconds, config.source.key_column)
    scan = scan_settled(source, read_catalog(output), settings, metadata, runtime)
    check_catalog(scan.recordings, scan.rejected)
    _check_rows(scan, config)
    if config.source.validation is not None:
        check_metadata(scan.recordings, config.source.validation)
    return scan, store_catalog(output, scan.catalog, config)


def _check_rows(scan: Scan, config: DatasetConfig) -> None:
    """Raises `CatalogError` where no row of the metadata names a file, but some name one of another folder.

    That is a mistake of paths, which would build everything without metadata. Rows of files that are nowhere are gaps.
    """
    rows = scan.rejected.filter(pl.col("origin") == Origin.METADATA, pl.col("code") != Reject.DUPLICATE_METADATA)
    misspelt = rows.filter(pl.col("reason").str.contains(NAMESAKE_HINT, literal=True))
    if rows.height < scan.num_rows or not misspelt.height:
        return
    path, reason = misspelt.select("path", "reason").row(0)
    raise CatalogError(
        f"metadata table {config.source.metadata or ''}: no row of it names a file of {config.source.uri}; `path` is "
        f"relative to source.uri. The table has, for example, {path!r} ({reason}). Correct the column, or take "
        "source.metadata out"
    )


def existing_catalog(output: Storage) -> Catalog:
    """The stored catalog.

    Raises:
        CatalogError: there is none yet.
    """
    catalog = read_catalog(output)
    if catalog is None:
        raise CatalogError(f"{output.uri}: no catalog yet; materialize `catalog` first, or run build.py")
    return catalog


def store_refusals(
    output: Storage, catalog: Catalog, manifests: Mapping[str, NumberedManifest], config: DatasetConfig
) -> None:
    """Store what decoding showed: the refusals of all manifests join the rejected table, for those that it had.

    Nothing is stored when another scan has replaced the catalog that the manifests were built from meanwhile.
    """
    refused = [refusal for numbered in manifests.values() for refusal in numbered.manifest.refused]
    columns = {"path": pl.String, "code": pl.String, "reason": pl.String}
    rows = [(refusal.path, refusal.code, refusal.reason) for refusal in refused]
    current = existing_catalog(output)
    if current.digest == catalog.digest:
        store_catalog(output, with_decode_rejects(current, pl.DataFrame(rows, schema=columns, orient="row")), config)


def store_catalog(output: Storage, catalog: Catalog, config: DatasetConfig) -> CatalogSummary:
    """Write both tables, then the summary of what was written: what is killed between them leaves none that counts.

    Raises:
        ConfigError: `group_by` names no metadata column; the tables are stored, without a summary.
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


def _stamps(catalog: Catalog) -> Stamps:
    """Every file that the scan listed, but for those that it left to the next one."""
    files = catalog.rejected.filter(pl.col("origin") == Origin.FILE)
    parts = (catalog.recordings, files)
    return joined([stamps_of(part["path"], part["num_bytes"], part["mtime_ns"]) for part in parts])
