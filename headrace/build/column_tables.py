"""Imports the tables that the YAML names under `columns`: divides their rows among the partitions.

A scan does this after it has stored the catalog. Each row goes to the partition of the sample or recording that it
names. Rows that name nothing are listed with reasons. The rows of a partition are sorted, so another order of the table
changes nothing.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import polars as pl

from headrace.audio import AudioFormat
from headrace.build.samples import planned_samples
from headrace.catalog.column_header import (
    ColumnTableHeader,
    TablePart,
    header_path,
    read_table_header,
    table_folder,
)
from headrace.catalog.metadata_columns import check_types, json_values
from headrace.catalog.parquet_files import parquet_bytes, parsed_table, write_if_new
from headrace.catalog.partitions import recordings_of
from headrace.catalog.parts import StoredCatalog
from headrace.catalog.path_spelling import spelled_as_files, tidy_paths
from headrace.config.content import ColumnSetConfig
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, ConfigError, FormatError, NotFoundError
from headrace.format.rejects import RejectReason
from headrace.stores.storage import Storage

_MIN_AGE_SECONDS = 86_400.0  # a younger part may belong to an import that has not written its header yet
_RESERVED = "headrace"
_ROW, _PARTITION = "\0row", "\0partition"  # no column of a user has such a name
_SHOWN = 5
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table that was prepared for the join: each name once, columns sorted by name after the joined one."""

    table: pl.DataFrame
    on: str
    num_merged: int
    nameless: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a table is stored: the catalog, the name of the set, and the files that exist already."""

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


def import_table(
    catalog: StoredCatalog,
    config: DatasetConfig,
    entry: ColumnSetConfig,
    stamp: object,
    read: Callable[[], pl.DataFrame],
) -> ColumnTableHeader:
    """Divide the table of a set of columns among the partitions. Nothing is read if nothing has changed.

    Args:
        catalog: the stored catalog.
        config: the settings of the data set.
        entry: the set of columns.
        stamp: size and modification time of the table's file.
        read: reads the table.

    Raises:
        ConfigError: the table is invalid, has neither a column `key` nor `path`, or has different rows for one of them.
            What was imported before stays.
    """
    output = catalog.output
    settings = (entry.model_dump_json(), config.audio.model_dump_json(), str(stamp), catalog.header.digest)
    inputs = hashlib.sha256("\0".join(settings).encode()).hexdigest()
    before = _last_header(output, entry.name)
    there = {found.path for found in output.list(table_folder(entry.name))}
    if before is not None and before.inputs == inputs and there.issuperset(before.paths()):
        return before
    try:
        rows = _prepared(read(), entry, catalog)
    except ConfigError as error:
        raise ConfigError(f"columns ({entry.name}): {error}") from error
    header = _divided(rows, _Place(catalog, entry.name, there), config.audio.format(), inputs)
    write_if_new(output, header_path(entry.name), header.to_bytes())
    kept = {header_path(entry.name), *header.paths(), *(() if before is None else before.paths())}
    _remove_old(output, table_folder(entry.name), kept, time.time())
    return header


def imported_rows(output: Storage, header: ColumnTableHeader, partition: str) -> pl.DataFrame:
    """The rows of a partition: the joined column, then the others by name.

    Raises:
        CatalogError: the table was imported for other partitions, or a part is missing.
        FormatError: a part is damaged.
    """
    part = header.partitions.get(partition)
    if part is None:
        raise CatalogError(f"{output.uri}: the columns were imported without {partition}; scan the source again")
    place = f"{output.uri}/{part.path}"
    try:
        blob = output.read(part.path)
    except NotFoundError as error:
        raise CatalogError(f"{place} is missing; scan the source again") from error
    if (found := hashlib.sha256(blob).hexdigest()) != part.sha256:
        raise FormatError(
            f"{place} is damaged: SHA-256 {part.sha256} expected, {found} found; delete it and scan again"
        )
    return parsed_table(blob, place, {header.on: pl.String})[0]


def _last_header(output: Storage, name: str) -> ColumnTableHeader | None:
    try:
        return read_table_header(output, name)
    except FormatError:  # the import writes it again
        return None


def _prepared(table: pl.DataFrame, entry: ColumnSetConfig, catalog: StoredCatalog) -> _Rows:
    """The table with each name once. Raises the errors of `import_table`."""
    on = _joined_column(table, entry)
    if _RESERVED in table.columns:
        raise ConfigError(f"the column {_RESERVED!r} has the name of the provenance in each sample's JSON; rename it")
    check_types(table)
    others = sorted(name for name in table.columns if name != on)
    if not others:
        raise ConfigError(f"the table has no column but {on!r}; add the columns to join")
    narrow = [pl.col(name).cast(pl.Int64) for name in others if _fits_int64(table[name])]
    table = table.select(on, *others).with_columns(*narrow).with_row_index(_ROW, 1)
    if on == "path":
        tidy = tidy_paths(table[on])
        if not tidy.str.contains(r"^[\x00-\x7F]*$").fill_null(value=True).all():
            tidy = spelled_as_files(tidy, catalog.recordings(["path"])["path"].unique())
        table = table.with_columns(tidy.alias(on))
    is_named = pl.col(on).is_not_null() & (pl.col(on) != "")
    named = table.filter(is_named)
    _check_repeated(named, on)
    merged = named.filter(pl.col(on).is_first_distinct())
    return _Rows(merged, on, named.height - merged.height, table.filter(~is_named))


def _joined_column(table: pl.DataFrame, entry: ColumnSetConfig) -> str:
    wanted = (entry.on,) if entry.on else ("key", "path")
    found = next((name for name in wanted if name in table.columns), None)
    if found is None:
        columns = ", ".join(table.columns) or "none"
        raise ConfigError(f"table {entry.table} has no column {' or '.join(map(repr, wanted))}; its columns: {columns}")
    return found


def _fits_int64(column: pl.Series) -> bool:
    """Whether integers of a type that may be larger than 64 bits with a sign are not."""
    if column.dtype not in {pl.UInt64, pl.Int128}:
        return False
    most, least = column.max(), column.min()
    return most is None or (int(str(most)) <= _INT64_MAX and int(str(least)) >= -_INT64_MAX - 1)


def _check_repeated(named: pl.DataFrame, on: str) -> None:
    """Raise `ConfigError` for rows that have the same name and differ."""
    several = named.filter(pl.col(on).is_duplicated()).sort(on, _ROW)
    if several.is_empty():
        return
    columns = [name for name in several.columns if name not in {on, _ROW}]
    values = {name: json_values(several[name]) for name in columns}
    first: dict[str, int] = {}
    differing: dict[str, str] = {}
    for row, (name, number) in enumerate(several.select(on, _ROW).iter_rows()):
        start = first.setdefault(name, row)
        other = [column for column in columns if values[column][row] != values[column][start]]
        if other:
            rows = f"rows {several[_ROW][start]} and {number}"
            differing.setdefault(name, f"{name!r} ({rows} differ in {', '.join(other)})")
    if differing:
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        listed = "; ".join(list(differing.values())[:_SHOWN])
        raise ConfigError(f"the table has different rows for one {on}: {listed}{more}; keep one row of each")


def _divided(rows: _Rows, place: _Place, audio: AudioFormat, inputs: str) -> ColumnTableHeader:
    """Store the rows of each partition, and those that match nothing."""
    table, on = rows.table.drop(_ROW), rows.on
    known = [
        names.unique().to_frame(on).with_columns(pl.lit(partition).alias(_PARTITION))
        for partition, names in _names(place.catalog, on, audio)
    ]
    # One join for all partitions: a path may be that of rows in several.
    joined = table.join(pl.concat(known), on=on, how="inner").sort(on)
    divided = joined.partition_by(_PARTITION, as_dict=True, include_key=False)
    parts: dict[str, TablePart] = {}
    for partition, num_names in zip(place.catalog.header.partitions, map(len, known), strict=True):
        part = divided.get((partition,), table.clear())
        path, blob, sha256 = place.write(f"parts/{partition}", part)
        parts[partition] = TablePart(path, len(blob), sha256, part.height, num_names - part.height)
    unmatched = _unmatched(rows, joined.select(on))
    listed = place.write("unmatched", unmatched)[0] if unmatched.height else ""
    num_rows = rows.table.height + rows.num_merged + rows.nameless.height
    return ColumnTableHeader(inputs, on, num_rows, rows.num_merged, unmatched.height, listed, parts)


def _names(catalog: StoredCatalog, on: str, audio: AudioFormat) -> Iterator[tuple[str, pl.Series]]:
    """Each partition of the header in order, and the keys of its samples or the paths of its recordings."""
    is_listed = on == "path" or audio.segment_seconds is None
    stored = catalog.partitions([on] if is_listed else None)
    for partition, entry in catalog.header.partitions.items():
        if entry.rows is None:
            yield partition, pl.Series(on, [], dtype=pl.String)
            continue
        _, recordings = next(stored)
        if is_listed:
            yield partition, recordings[on]
        else:
            planned, _ = planned_samples(recordings_of(recordings), audio)
            yield partition, pl.Series(on, list(planned), dtype=pl.String)


def _unmatched(rows: _Rows, matched: pl.DataFrame) -> pl.DataFrame:
    """Rows that match nothing: their number in the table, what they name, and the reason."""
    on = rows.on
    what = "no sample of the catalog" if on == "key" else "no recording of the catalog"
    unknown = rows.table.join(matched, on=on, how="anti").select(
        pl.col(_ROW).alias("row"),
        pl.col(on).alias("name"),
        code=pl.lit(RejectReason.NO_SAMPLE),
        reason=pl.format(f"row {{}} of the table names {what}", _ROW),
    )
    nameless = rows.nameless.select(
        pl.col(_ROW).alias("row"),
        name=pl.lit(""),
        code=pl.lit(RejectReason.BAD_NAME),
        reason=pl.format(f"row {{}} of the table has no {on}", _ROW),
    )
    return pl.concat([unknown, nameless]).sort("row")


def _remove_old(output: Storage, folder: str, kept: set[str], now_seconds: float) -> None:
    for entry in list(output.list(folder)):
        if entry.path not in kept and now_seconds - entry.modified_seconds > _MIN_AGE_SECONDS:
            output.delete(entry.path)
