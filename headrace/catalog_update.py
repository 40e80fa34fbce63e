"""Bringing the stored catalog up to date: read what is known, scan, check, write.

Owns that sequence, so that the asset, `build.py` and tests do the same. Each step is another module's.
"""

from collections.abc import Mapping

import polars as pl

from headrace.catalog import Catalog, CatalogSettings, Scan, ScanRuntime, scan_settled, with_decode_rejects
from headrace.catalog_files import read_catalog, write_catalog
from headrace.config import SourceConfig
from headrace.errors import CatalogError
from headrace.manifests import NumberedManifest
from headrace.sources import Source
from headrace.storage import Storage


def update_catalog(
    config: SourceConfig,
    source: Source,
    metadata: pl.DataFrame | None,
    output: Storage,
    runtime: ScanRuntime | None = None,
) -> Scan:
    """Scan the source and store what was found; nothing is written where nothing changed.

    Young files are waited for, see `headrace.catalog.scan_settled`.

    Raises:
        ConfigError: the metadata table cannot be used, or the user's schema cannot be found.
        CatalogError: the tables break a promise, or the metadata does not pass the user's schema; nothing is stored.
        FormatError: the stored catalog is damaged.
    """
    # pandera brings pandas, a third of what a run takes to start: only a scan pays for it.
    from headrace.catalog_checks import check_catalog, check_metadata  # noqa: PLC0415

    settings = CatalogSettings(config.settle_seconds, config.min_seconds, config.key_column)
    scan = scan_settled(source, read_catalog(output), settings, metadata, runtime)
    check_catalog(scan.recordings, scan.rejected)
    if config.validation is not None:
        check_metadata(scan.recordings, config.validation)
    write_catalog(output, scan.catalog)
    return scan


def existing_catalog(output: Storage) -> Catalog:
    """The stored catalog.

    Raises:
        CatalogError: there is none yet.
    """
    catalog = read_catalog(output)
    if catalog is None:
        raise CatalogError(f"{output.uri}: no catalog yet; materialize `catalog` first, or run build.py")
    return catalog


def store_refusals(output: Storage, catalog: Catalog, manifests: Mapping[str, NumberedManifest]) -> None:
    """Store what decoding showed: the refusals of all manifests join the rejected table, for those that it had.

    Nothing is stored when another scan has replaced the catalog that the manifests were built from meanwhile.
    """
    refused = [refusal for numbered in manifests.values() for refusal in numbered.manifest.refused]
    columns = {"path": pl.String, "code": pl.String, "reason": pl.String}
    rows = [(refusal.path, refusal.code, refusal.reason) for refusal in refused]
    current = existing_catalog(output)
    if current.digest == catalog.digest:
        write_catalog(output, with_decode_rejects(current, pl.DataFrame(rows, schema=columns, orient="row")))
