"""The parts of a stored catalog: one pair of tables for each partition, the rejects, and the stamps of the files.

Facts of files and rows are stored apart: a change of metadata writes no facts again, and a file with many rows is
described once. A part is written before the header that names it, and is never changed. This module reads parts;
`headrace.catalog.stored.storing` writes them, and `headrace.catalog.stored.header` has the header.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.catalog.judging.acceptance import bad_facts, good_facts
from headrace.catalog.rows.recordings import Recording
from headrace.catalog.rows.schemas import (
    FILE_SCHEMA,
    RECORDING_SCHEMA,
    REJECTED_SCHEMA,
    ROW_SCHEMA,
    ColumnTypes,
)
from headrace.catalog.scanning.scan import Catalog
from headrace.catalog.scanning.scan_tables import EarlierScan
from headrace.catalog.scanning.sidecar_contents import sidecar_contents
from headrace.catalog.stored.header import (
    HEADER_PATH,
    SCAN_AGAIN,
    CatalogHeader,
    PartitionEntry,
    check_grouping,
    partition_in,
    read_header,
    sizes_of_parts,
)
from headrace.catalog.stored.header_lines import Part
from headrace.catalog.stored.parquet_files import parsed_table, way_out
from headrace.catalog.stored.partitions import recordings_of
from headrace.config.dataset import DatasetConfig
from headrace.config.source import JsonContent
from headrace.errors import CatalogError, FormatError, NotFoundError
from headrace.format.rejects import RejectSubject
from headrace.stores.storage import Storage

_FILES = ".files-"


@dataclass(frozen=True, slots=True)
class StoredCatalog:
    """A stored catalog. Its methods read the parts that they need, one after the other.

    All raise `FormatError` if a part is damaged, and `CatalogError` if one is missing.

    Attributes:
        output: storage of the catalog.
        header: the header that names the parts.
    """

    output: Storage
    header: CatalogHeader

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[tuple[str, pl.DataFrame]]:
        """Each partition that has rows, and its recordings table with these columns, or with all of them."""
        for name, entry in self.header.partitions.items():
            if entry.rows is not None:
                yield name, read_rows(self.output, entry, columns)

    def recordings(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The recordings table of all partitions with these columns, or with all of them, sorted by path."""
        names = None if columns is None else list(dict.fromkeys(["path", *columns]))
        found = [rows for _, rows in self.partitions(names)]
        empty = pl.DataFrame(schema=RECORDING_SCHEMA)
        table = pl.concat(found) if found else empty.select(names or pl.all())
        return table.sort("path", maintain_order=True).select(pl.all() if columns is None else pl.col(*columns))

    def rejected(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The table of rejects with these columns, or with all of them."""
        return _table(self.output, self.header.totals.rejected, REJECTED_SCHEMA, columns)

    def whole(self, columns: Sequence[str] | None = None) -> Catalog:
        """Both tables in memory, the recordings with these columns, or with all of them."""
        return Catalog(self.recordings(columns), self.rejected(), self.header.totals.probe_version)


def last_catalog(output: Storage) -> StoredCatalog | None:
    """The stored catalog; None before the first scan, and if the header is damaged, which the next scan repairs."""
    try:
        return read_catalog(output)
    except FormatError:
        return None


def read_catalog(output: Storage) -> StoredCatalog | None:
    """The stored catalog; None before the first scan. Raises `FormatError` if the header is damaged."""
    header = read_header(output)
    return None if header is None else StoredCatalog(output, header)


def existing_catalog(output: Storage) -> StoredCatalog:
    """The stored catalog.

    Raises:
        CatalogError: there is no catalog yet.
    """
    catalog = read_catalog(output)
    if catalog is None:
        raise no_catalog(output)
    return catalog


def current_catalog(output: Storage, config: DatasetConfig) -> StoredCatalog:
    """The stored catalog, which must have been made with the present splits, partitions and groups.

    Raises:
        CatalogError: there is no catalog yet, or it was made with other settings.
    """
    catalog = existing_catalog(output)
    check_grouping(catalog.header.totals, config, f"{output.uri}/{HEADER_PATH}")
    return catalog


def partition_recordings(output: Storage, config: DatasetConfig, partition: str) -> list[Recording]:
    """The recordings of one partition of the stored catalog, in the catalog's order. Raises as `read_partition`.

    With `source.json: minimal`, they have no metadata, because it does not reach a shard.
    """
    rows = read_partition(output, config, partition)
    is_embedded = config.source.json_content == JsonContent.EMBED
    return recordings_of(rows if is_embedded else rows.select(*RECORDING_SCHEMA))


def read_partition(output: Storage, config: DatasetConfig, partition: str) -> pl.DataFrame:
    """The recordings table of one partition. Other partitions are neither read nor parsed.

    Raises:
        CatalogError: there is no catalog, it was made with other settings, or a part is missing.
        FormatError: the header or a part is damaged.
    """
    place = f"{output.uri}/{HEADER_PATH}"
    try:
        blob = output.read(HEADER_PATH)
    except NotFoundError as error:
        raise no_catalog(output) from error
    totals, entry = partition_in(blob, partition, place)
    check_grouping(totals, config, place)
    return rows_of_entry(output, entry)


def rows_of_entry(output: Storage, entry: PartitionEntry) -> pl.DataFrame:
    """The recordings table of a partition, which may be empty. Raises as `read_partition`."""
    return pl.DataFrame(schema=RECORDING_SCHEMA) if entry.rows is None else read_rows(output, entry)


def no_catalog(output: Storage) -> CatalogError:
    """The error that there is no catalog yet."""
    return CatalogError(
        f"{output.uri}: there is no catalog yet; materialize the asset `catalog` first, or run `headrace build`"
    )


def read_rows(output: Storage, entry: PartitionEntry, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The recordings table of a partition that has rows: its rows with the facts of their files, in stored order."""
    if entry.rows is None or entry.files is None:
        raise ValueError(f"{entry.partition} has no rows")
    if columns is None:
        of_files, of_rows = None, None
    else:
        of_files = ["path", *(name for name in columns if name in FILE_SCHEMA and name != "path")]
        of_rows = ["path", *(name for name in columns if name not in FILE_SCHEMA)]
    rows = _table(output, entry.rows, ROW_SCHEMA, of_rows)
    if of_files == ["path"]:
        return rows.select(columns or pl.all())
    files = _table(output, entry.files, FILE_SCHEMA, of_files)
    if of_rows == ["path"] and files["path"].equals(rows["path"]):  # each file is one row
        return files.select(columns or pl.all())
    joined = rows.join(files, on="path", how="left", maintain_order="left")
    users = (name for name in rows.columns if name not in ROW_SCHEMA)
    return joined.select(columns if columns is not None else [*RECORDING_SCHEMA, *users])


def known_catalog(output: Storage, header: CatalogHeader | None, probe_version: str) -> EarlierScan | None:
    """Results in the stored catalog that a scan reuses: the facts of its files, and its rejects; None without any.

    A missing part is left out: its files are read again. Without a header, the facts of all parts are returned that
    were read with this version of the probe, because facts are true whatever part they are in.

    Raises:
        FormatError: a part is damaged.
    """
    there = sizes_of_parts(output)
    nothing = pl.DataFrame(schema=REJECTED_SCHEMA)
    if header is None:
        paths = sorted(path for path in there if _FILES in path)
        return EarlierScan(lambda: _facts_in(output, paths, probe_version), nothing, probe_version) if paths else None
    totals = header.totals
    parts = [entry.files for entry in header.partitions.values() if entry.files is not None]

    def rejected() -> pl.DataFrame:  # read again and not kept: it may be large
        is_there = totals.rejected.path in there
        return _table(output, totals.rejected, REJECTED_SCHEMA) if is_there else nothing

    def facts() -> Iterator[pl.DataFrame]:
        for part in parts:
            if part.path in there:
                yield good_facts(_table(output, part, FILE_SCHEMA))
        yield bad_facts(rejected())

    def sidecars() -> Iterator[pl.DataFrame]:
        for entry in header.partitions.values():
            if entry.rows is not None and entry.rows.path in there:
                yield sidecar_contents(_table(output, entry.rows, ROW_SCHEMA, ["sidecars"])["sidecars"])

    decode = rejected().filter(pl.col("origin") == RejectSubject.DECODE)
    return EarlierScan(facts, decode, totals.probe_version, sidecars)


def _facts_in(output: Storage, paths: Sequence[str], probe_version: str) -> Iterator[pl.DataFrame]:
    """Facts of the files in parts that were read with this version of the probe."""
    for path in paths:
        table, version = parsed_table(output.read(path), f"{output.uri}/{path}", FILE_SCHEMA)
        if version == probe_version:
            yield good_facts(table)


def _table(output: Storage, part: Part, schema: ColumnTypes, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The table of a part, whose digest is compared first."""
    place = f"{output.uri}/{part.path}"
    try:
        blob = output.read(part.path)
    except NotFoundError as error:
        raise CatalogError(f"{place} is missing; {SCAN_AGAIN}") from error
    found = hashlib.sha256(blob).hexdigest()
    if found != part.sha256:
        raise FormatError(f"{place} is damaged: SHA-256 {part.sha256} expected, {found} found; {way_out(place)}")
    table, _ = parsed_table(blob, place, schema, columns)
    return table
