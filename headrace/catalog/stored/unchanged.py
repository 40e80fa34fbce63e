"""Decides whether a scan would find what the stored catalog has, and returns the stored catalog then.

A scan depends on the files of the source, and on the settings, the tables of the user, the probe and the code. The
header of a catalog has a digest of all except the files (`scan_inputs`), and its stamps are those of the files. If both
are as they were, the source is listed, and nothing else: no table is opened, and no part of a partition is read.
"""

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl

from headrace.catalog.rows.schemas import RECORDING_SCHEMA, STAMP_SCHEMA
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.early_listing import EarlyListing, list_early
from headrace.catalog.scanning.scan import RecordingFigures, Scan
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.header import HEADER_PATH, CatalogHeader, check_owner, read_durations, read_stamps
from headrace.catalog.stored.header_lines import PARTS_FOLDER
from headrace.catalog.stored.parts import StoredCatalog, last_catalog, read_rows
from headrace.catalog.stored.storing import copy_rejects, remove_old_parts
from headrace.catalog.stored.update import check_output, update_catalog
from headrace.catalog.tables.metadata_files import MetadataTable
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, FormatError, NotFoundError
from headrace.format.rejects import RejectSubject
from headrace.sources.listing import FileStamp
from headrace.sources.sources import Source
from headrace.stores.contents import StoredObject
from headrace.stores.storage import Storage

_LIBRARY = Path(__file__).parents[2]
_SETTLED_NS = 5_000_000_000
_INPUT_DIGITS = 32


@dataclass(frozen=True, slots=True)
class UserTables:
    """The tables of the user that a scan reads.

    Attributes:
        stamps: URI of each table → its stamp, taken before it is opened; None for a table that cannot be read.
        metadata: opens the metadata table; returns None without one.
        excluded: reads the keys of the table that `exclude` names.
    """

    stamps: Mapping[str, FileStamp | None]
    metadata: Callable[[], MetadataTable | None]
    excluded: Callable[[], frozenset[str]]


def refresh_catalog(
    config: DatasetConfig, source: Source, tables: UserTables, output: Storage, runtime: ScanRuntime
) -> tuple[Scan, CatalogHeader]:
    """Scan the source and store its catalog, or return the stored catalog if a scan would find the same.

    Arguments, results and errors are those of `headrace.catalog.stored.update.update_catalog`, with the user's tables
    opened only for a scan. The result of a scan that was not made has opened no file.
    """
    inputs = scan_inputs(config, source.uri, tables.stamps, runtime)

    def scanned(listed: EarlyListing | None) -> tuple[Scan, CatalogHeader]:
        metadata, excluded = tables.metadata(), tables.excluded()
        return update_catalog(
            config, source, metadata, output, runtime, excluded=excluded, inputs=inputs, listed=listed
        )

    stored = last_catalog(output)
    if stored is None or not inputs or stored.header.totals.scan.inputs != inputs:
        return scanned(None)
    check_output(output)
    check_owner(stored.header.totals, config, f"{output.uri}/{HEADER_PATH}")
    with closing(list_early(source, runtime)) as listed:
        return _unchanged(stored, listed) or scanned(listed)


def is_unchanged(source: Source, inputs: str, output: Storage, runtime: ScanRuntime) -> bool:
    """Whether `refresh_catalog` would return the stored catalog as it is. Lists the source; writes nothing.

    Args:
        source: the recordings.
        inputs: the result of `scan_inputs`.
        output: has the catalog.
        runtime: lists the source.
    """
    stored = last_catalog(output)
    if stored is None or not inputs or stored.header.totals.scan.inputs != inputs:
        return False
    with closing(list_early(source, runtime)) as listed:
        return _is_same(stored, listed, list(output.list(PARTS_FOLDER)))


def scan_inputs(
    config: DatasetConfig, source: str, stamps: Mapping[str, FileStamp | None], runtime: ScanRuntime
) -> str:
    """Digest of all that a scan depends on besides the files; empty if that is not known.

    It is empty with a schema of the user (`source.schema`), which is code that may change unseen, and while a table
    changed so recently that another change may leave its stamp as it is.

    Args:
        config: the settings. All of them count, so that no setting can be forgotten.
        source: where the recordings are.
        stamps: the stamps of the user's tables.
        runtime: has the clock and the version of the probe.
    """
    times = [time_ns for stamp in stamps.values() if stamp for time_ns in (stamp.mtime_ns, stamp.ctime_ns)]
    if config.source.validation is not None or max(times, default=0) > runtime.clock() - _SETTLED_NS:
        return ""
    said = [config.model_dump_json(), source, str(sorted(stamps.items())), runtime.probe_version(), code_digest()]
    return hashlib.sha256("\0".join(said).encode()).hexdigest()[:_INPUT_DIGITS]


@cache
def code_digest(root: Path = _LIBRARY) -> str:
    """Digest of the code of a package, by default the library, and of the version of polars. Links are followed."""
    digest = hashlib.sha256(pl.__version__.encode())
    files = (Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names)
    for path in sorted(path for path in files if path.suffix == ".py"):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _unchanged(stored: StoredCatalog, listed: EarlyListing) -> tuple[Scan, CatalogHeader] | None:
    """The stored catalog, if it is whole and has exactly the listed files; None otherwise."""
    start, output, header = time.perf_counter(), stored.output, stored.header
    parts = list(output.list(PARTS_FOLDER))
    if not _is_same(stored, listed, parts):
        return None
    try:
        rejected, durations, schema = stored.rejected(), read_durations(output, header), _schema(stored)
    except (CatalogError, FormatError, NotFoundError):  # the scan reports it, or repairs it
        return None
    copy_rejects(output, header)
    remove_old_parts(output, parts, {part.path for part in header.parts()}, time.time())
    ScanCheckpoint(output).clear()
    return _scan(stored, rejected, durations, schema, _seconds(listed, start)), header


def _is_same(stored: StoredCatalog, listed: EarlyListing, parts: Sequence[StoredObject]) -> bool:
    """Whether the stored catalog is whole, has exactly the listed files, and no file that is tried again."""
    sizes = {entry.path: entry.num_bytes for entry in parts}
    if not all(sizes.get(part.path) == part.num_bytes for part in stored.header.parts()):
        return False
    try:
        is_listed = listed.stamps.equals(read_stamps(stored.output, stored.header))
        return is_listed and _never_read(stored.rejected()).equals(listed.unopened().sort("path"))
    except (CatalogError, FormatError, NotFoundError):  # the scan reports it, or repairs it
        return False


def _never_read(rejected: pl.DataFrame) -> pl.DataFrame:
    """The rejected files without content, sorted: `path`, `code`, `reason`."""
    files = rejected.filter((pl.col("origin") == RejectSubject.FILE) & pl.col("sha256").is_null())
    return files.select("path", "code", "reason").sort("path")


def _schema(stored: StoredCatalog) -> pl.Schema:
    """Names and types of the columns of the recordings; all parts have the same."""
    entries = (entry for entry in stored.header.partitions.values() if entry.rows is not None)
    entry = next(entries, None)
    return pl.Schema(RECORDING_SCHEMA) if entry is None else read_rows(stored.output, entry).schema


def _seconds(listed: EarlyListing, start: float) -> dict[str, float]:
    return {"list": listed.seconds, "plan": time.perf_counter() - start, "read": 0.0, "judge": 0.0}


def _scan(
    stored: StoredCatalog, rejected: pl.DataFrame, durations: list[float], schema: pl.Schema, seconds: dict[str, float]
) -> Scan:
    """The result of a scan that was not made."""
    header, record = stored.header, stored.header.totals.scan
    return Scan(
        stored.recordings,
        schema,
        rejected,
        RecordingFigures(record.seconds, record.num_bytes, header.totals.num_duplicates, durations),
        header.totals.probe_version,
        unsettled=pl.DataFrame(schema=STAMP_SCHEMA),
        num_recordings=header.num_rows,
        num_used=record.num_used,
        num_found=record.num_found,
        num_opened=0,
        num_reused=record.num_known,
        num_rows=record.num_rows,
        num_left_out_rows=record.num_left_out_rows,
        num_left_out_files=record.num_left_out_files,
        num_merged_rows=record.num_merged_rows,
        num_cut_rows=record.num_cut_rows,
        seconds=seconds,
    )
