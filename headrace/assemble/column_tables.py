"""Imports the tables that the YAML names under `columns`: divides their rows among the partitions.

A scan does this after it has stored the catalog. Each row goes to the partition of the sample or recording that it
names. Rows that name nothing are listed with reasons. The rows of a partition are sorted, so another order of the table
changes nothing.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl

from headrace.assemble.column_rows import PARTITION, ROW, TableRows
from headrace.assemble.samples import planned_samples
from headrace.audio import AudioFormat
from headrace.catalog.compared.type_changes import type_word
from headrace.catalog.stored.column_header import (
    ColumnTableHeader,
    TablePart,
    header_path,
    read_table_header,
    table_folder,
)
from headrace.catalog.stored.parquet_files import parquet_bytes, parsed_table, write_if_new
from headrace.catalog.stored.partitions import recordings_of
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.tables.buckets import PART_BYTES, Buckets, bucket_of_numbers, divided_by_number, parts_of
from headrace.catalog.tables.metadata_files import MetadataTable
from headrace.config.content import ColumnSetConfig
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, ConfigError, FormatError, NotFoundError
from headrace.format.rejects import RejectReason
from headrace.stores.storage import Storage

_MIN_AGE_SECONDS = 86_400.0  # a younger part may belong to an import that has not written its header yet


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a stored table: the catalog, the name of the set, and the files that exist already."""

    catalog: StoredCatalog
    name: str
    there: Collection[str]

    def write(self, label: str, table: pl.DataFrame) -> tuple[str, bytes, str]:
        """Store a table, unless a file of its content exists. Returns its path, content and digest."""
        blob = parquet_bytes(table, "")
        sha256 = hashlib.sha256(blob).hexdigest()
        path = f"{table_folder(self.name)}{label}-{sha256[:12]}.parquet"
        if path not in self.there:
            self.catalog.output.write(path, blob)
        return path, blob, sha256


def import_table(  # noqa: PLR0913, PLR0917 - what is joined with what, and how much at a time
    catalog: StoredCatalog,
    config: DatasetConfig,
    entry: ColumnSetConfig,
    stamp: object,
    read: Callable[[], MetadataTable],
    part_bytes: int = PART_BYTES,
) -> ColumnTableHeader:
    """Divide the table of a set of columns among the partitions. Nothing is read if nothing has changed.

    The table need not fit in memory: it is joined in parts, through temporary files.

    Args:
        catalog: the stored catalog.
        config: the settings of the data set.
        entry: the set of columns.
        stamp: size and modification time of the table's file.
        read: opens the table.
        part_bytes: about this much is kept in memory of each table, and joined at a time.

    Raises:
        ConfigError: the table is invalid, has neither a column `key` nor `path`, or has different rows for one of them.
            What was imported before stays, and is divided again (`divide_again`).
    """
    output = catalog.output
    root = catalog.header.totals.source
    settings = (entry.model_dump_json(), config.audio.model_dump_json(), str(stamp), catalog.header.digest, root)
    inputs = hashlib.sha256("\0".join(settings).encode()).hexdigest()
    before = last_header(output, entry.name)
    there = {found.path for found in output.list(table_folder(entry.name))}
    if before is not None and before.inputs == inputs and there.issuperset(before.paths()):
        return before
    try:
        with closing(TableRows.of(read(), entry, part_bytes, root)) as rows:
            place = _Place(catalog, entry.name, there)
            divided = _divided(rows, place, config.audio.format(), [ROW, rows.column])
            header = _header(rows, divided, inputs, place)
    except ConfigError as error:
        divide_again(catalog, config, entry, part_bytes)
        raise ConfigError(f"columns ({entry.name}): {error}") from error
    _store(output, entry.name, header, before)
    return header


def divide_again(
    catalog: StoredCatalog, config: DatasetConfig, entry: ColumnSetConfig, part_bytes: int = PART_BYTES
) -> None:
    """Divide the rows of the last import among the partitions of the catalog, for a table that cannot be read now.

    So samples that moved to another partition keep their values, and those that come back get theirs. Nothing is done
    without an earlier import, if a part of it is missing or damaged, or if the catalog is that of the last call.

    Args:
        catalog: the stored catalog.
        config: the settings of the data set.
        entry: the set of columns.
        part_bytes: see `import_table`.
    """
    before = last_header(catalog.output, entry.name)
    inputs = f"again {catalog.header.digest}"  # not those of a table, which is read as soon as it can be
    if before is None or before.inputs == inputs or not before.partitions:
        return
    joined = dict.fromkeys(("on", "key", "path")) | {before.on: before.column}
    there = {found.path for found in catalog.output.list(table_folder(entry.name))}
    with contextlib.suppress(CatalogError, FormatError):  # the build of the partitions reports it
        table = _ImportedTable.of(catalog.output, before)
        with closing(TableRows.of(table, entry.model_copy(update=joined), part_bytes)) as rows:
            place = _Place(catalog, entry.name, there)
            divided = _divided(rows, place, config.audio.format(), list(rows.schema))
        left = divided.unmatched.sort(before.column)
        kept = _part(place, "left", left, 0) if left.height else None
        _store(catalog.output, entry.name, replace(before, inputs=inputs, partitions=divided.parts, left=kept), before)


@dataclass(frozen=True, slots=True)
class _ImportedTable:
    """The rows of an import, as a table."""

    output: Storage
    header: ColumnTableHeader
    schema: pl.Schema

    @classmethod
    def of(cls, output: Storage, header: ColumnTableHeader) -> "_ImportedTable":
        return cls(output, header, _rows_of(output, header, header.parts()[0]).schema)

    def batches(self) -> Iterator[pl.DataFrame]:
        for part in self.header.parts():
            yield _rows_of(self.output, self.header, part)


def last_header(output: Storage, name: str) -> ColumnTableHeader | None:
    """The header of the last import of a table; None before the first import, and if the header is damaged."""
    try:
        return read_table_header(output, name)
    except FormatError:  # the import writes it again
        return None


def imported_rows(output: Storage, header: ColumnTableHeader, partition: str) -> pl.DataFrame:
    """The rows of a partition: the joined column, then the others by name.

    Raises:
        CatalogError: the table was imported for other partitions, or a part is missing.
        FormatError: a part is damaged.
    """
    part = header.partitions.get(partition)
    if part is None:
        raise CatalogError(f"{output.uri}: the columns were imported without {partition}; scan the source again")
    return _rows_of(output, header, part)


def _rows_of(output: Storage, header: ColumnTableHeader, part: TablePart) -> pl.DataFrame:
    """The rows of a part. Raises as `imported_rows` does."""
    place = f"{output.uri}/{part.path}"
    try:
        blob = output.read(part.path)
    except NotFoundError as error:
        raise CatalogError(f"{place} is missing; scan the source again") from error
    if (found := hashlib.sha256(blob).hexdigest()) != part.sha256:
        raise FormatError(
            f"{place} is damaged: SHA-256 {part.sha256} expected, {found} found; delete it and scan again"
        )
    return parsed_table(blob, place, {header.column: pl.String})[0]


class _Divided(NamedTuple):
    """Partition → its stored rows, columns of the rows that match nothing, and the number of merged rows."""

    parts: dict[str, TablePart]
    unmatched: pl.DataFrame
    num_merged: int


def _divided(rows: TableRows, place: _Place, audio: AudioFormat, of_unmatched: Sequence[str]) -> _Divided:
    """Store the rows of each partition. Of rows that match nothing, some columns are kept."""
    names = list(place.catalog.header.partitions)
    num_names = []
    for number, found in enumerate(_names(place.catalog, rows.on, audio)):
        once = found.unique()
        rows.add_names(once, number)
        num_names.append(len(once))
    joined = Buckets(pl.Schema({**rows.schema, PARTITION: pl.UInt32()}), rows.part_bytes)
    with closing(joined):
        unmatched, num_merged = [], 0
        for matched in rows.matched():
            joined.add(matched.joined, bucket_of_numbers(matched.joined[PARTITION], len(names)))
            unmatched.append(matched.unmatched.select(of_unmatched))
            num_merged += matched.num_merged
        parts: dict[str, TablePart] = {}
        for run in parts_of([joined], rows.part_bytes):
            sorted_rows = joined.part(run).sort(PARTITION, rows.column)
            for number, part in divided_by_number(sorted_rows, PARTITION, run, len(names)):
                parts[names[number]] = _part(place, names[number], part, num_names[number] - part.height)
    return _Divided(parts, pl.concat(unmatched), num_merged)


def _part(place: _Place, label: str, rows: pl.DataFrame, num_without: int) -> TablePart:
    path, blob, sha256 = place.write(f"parts/{label}", rows)
    return TablePart(path, len(blob), sha256, rows.height, num_without)


def _header(rows: TableRows, divided: _Divided, inputs: str, place: _Place) -> ColumnTableHeader:
    """The header of an import, whose rows that match nothing are listed."""
    listed = _unmatched(rows, divided.unmatched)
    path = place.write("unmatched", listed)[0] if listed.height else ""
    types = {name: type_word(dtype) for name, dtype in rows.schema.items() if name != rows.column}
    counts = rows.num_rows, divided.num_merged, listed.height
    return ColumnTableHeader(inputs, rows.on, rows.column, types, *counts, path, divided.parts)


def _names(catalog: StoredCatalog, on: str, audio: AudioFormat) -> Iterator[pl.Series]:
    """The keys of the samples, or the paths of the recordings, of each partition of the header in order."""
    is_listed = on == "path" or audio.segment_seconds is None
    stored = catalog.partitions([on] if is_listed else None)
    for entry in catalog.header.partitions.values():
        if entry.rows is None:
            yield pl.Series(on, [], dtype=pl.String)
            continue
        _, recordings = next(stored)
        if is_listed:
            yield recordings[on]
        else:
            planned, _ = planned_samples(recordings_of(recordings), audio)
            yield pl.Series(on, list(planned), dtype=pl.String)


def _unmatched(rows: TableRows, unmatched: pl.DataFrame) -> pl.DataFrame:
    """Rows that match nothing: their number in the table, what they name, and the reason."""
    on = rows.on
    what = "no sample of the catalog" if on == "key" else "no recording of the catalog"
    unknown = unmatched.select(
        pl.col(ROW).alias("row"),
        pl.col(rows.column).alias("name"),
        code=pl.lit(RejectReason.NO_SAMPLE),
        reason=pl.format(f"row {{}} of the table names {what}", ROW),
    )
    nameless = pl.DataFrame({"row": rows.nameless}, schema={"row": pl.Int64}).with_columns(
        name=pl.lit(""),
        code=pl.lit(RejectReason.BAD_NAME),
        reason=pl.format(f"row {{}} of the table has no {on}", "row"),
    )
    return pl.concat([unknown, nameless]).sort("row")


def _store(output: Storage, name: str, header: ColumnTableHeader, before: ColumnTableHeader | None) -> None:
    """Write the header, and remove parts that neither it nor the one before names."""
    write_if_new(output, header_path(name), header.to_bytes())
    kept = {header_path(name), *header.paths(), *(() if before is None else before.paths())}
    _remove_old(output, table_folder(name), kept, time.time())


def _remove_old(output: Storage, folder: str, kept: set[str], now_seconds: float) -> None:
    for entry in list(output.list(folder)):
        if entry.path not in kept and now_seconds - entry.modified_seconds > _MIN_AGE_SECONDS:
            output.delete(entry.path)
