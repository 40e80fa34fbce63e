"""Reads sidecars (`source.sidecars`): `a.json` and `a.txt` beside `a.wav`, whose values become columns of `a.wav`.

Sidecars are taken out of the listing. They are matched to recordings by the path without extension, in parts
(`headrace.catalog.tables.buckets`), and only new and changed ones are read: the catalog keeps the content of others.
The objects of all recordings are then read as one table of JSON Lines, so that a column has one type.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from headrace.catalog.rows.metadata_columns import stored_names
from headrace.catalog.rows.schemas import STAMP_SCHEMA, ColumnTypes
from headrace.catalog.scanning.scan_workers import FileWorkers
from headrace.catalog.scanning.sidecar_contents import CONTENT_SCHEMA, SidecarFile, sidecar_contents, sidecars_json
from headrace.catalog.tables.buckets import Buckets, bucket_of_paths, parts_of
from headrace.catalog.tables.declared_types import fits, misfit
from headrace.catalog.tables.interval_rows import IntervalRows
from headrace.catalog.tables.json_lines import read_json_lines
from headrace.catalog.tables.metadata_files import with_stored_types
from headrace.catalog.tables.row_origins import RowOrigin
from headrace.config.source import SPAN_ROLES
from headrace.config.tables import ColumnType
from headrace.errors import FileChangedError, UnsafePathError
from headrace.format.typed_json import json_value, strict_json
from headrace.sources.listing import FileStamp, SourceStamps, stamps_of
from headrace.sources.sources import Source
from headrace.stores.temporary_room import temporary_room

MOST_BYTES = 16 << 20
"""Size of the largest sidecar."""

_BASE, _EXTENSION, _RECORDING = "\0base", "\0extension", "\0recording"
_PATH, _NAMES, _STORED, FAULT = "\0path", "\0names", "\0stored", "\0sidecar_fault"
_OF_ROWS = "\0of_rows"  # the sidecar with the intervals that are rows
_LINE = "\0line"
_FOUND = ColumnTypes({**STAMP_SCHEMA, "reason": pl.String, _BASE: pl.String, _EXTENSION: pl.String})
_HELD = {"path": pl.String, "mtime_ns": pl.Int64}


class _Wanted(NamedTuple):
    """A sidecar that is to be read: its stamp, its extension, and why it cannot be opened."""

    path: str
    num_bytes: int | None
    mtime_ns: int | None
    ctime_ns: int | None
    extension: str
    reason: str | None


class _Result(NamedTuple):
    """The content of a sidecar as JSON, or why it has none; neither if it changed meanwhile."""

    path: str
    content: str | None
    fault: str | None


class Sidecars:
    """The sidecars of a source.

    Attributes:
        schema: names in the catalog and types of the columns that they give.
        held: recordings that wait for a sidecar, with the time when it changed (`path`, `mtime_ns`).
        stamps: stamps of the sidecars that were read, and of those beside which there is no recording.
        num_alone: sidecars beside which there is no recording.
    """

    def __init__(
        self, extensions: Sequence[str], types: Mapping[str, ColumnType], most_bytes: int, rows: str | None = None
    ) -> None:
        """Nothing is listed yet.

        Args:
            extensions: extensions without the dot; there are no sidecars without any.
            types: column → its declared type; columns that no sidecar has do not matter.
            most_bytes: as in `Buckets`.
            rows: the column whose intervals are rows (`intervals`), if there is one.
        """
        self._types, self._rows = types, rows
        self._extensions = sorted(extensions, key=len, reverse=True)
        self._most_bytes = most_bytes
        self._found = Buckets(pl.Schema(_FOUND), most_bytes)
        self._recordings = Buckets(pl.Schema({_BASE: pl.String, _RECORDING: pl.String}), most_bytes)
        self._known = Buckets(pl.Schema(CONTENT_SCHEMA | {_BASE: pl.String}), most_bytes)
        self._columns: Buckets | None = None
        self._stored: dict[str, str] = {}
        self._dropped: tuple[str, ...] = ()
        self.schema = pl.Schema()
        self.held = pl.DataFrame(schema=_HELD)
        self.stamps: list[SourceStamps] = []
        self.num_alone = 0

    def take(self, listing: pl.DataFrame) -> pl.DataFrame:
        """Take the sidecars out of a chunk of a listing (`LISTING_SCHEMA`). Returns the other files."""
        if not self._extensions:
            return listing
        named = self._with_bases(listing)
        found, others = named.filter(pl.col(_BASE).is_not_null()), listing.filter(named[_BASE].is_null())
        self._found.add(found, bucket_of_paths(found[_BASE]))
        path = pl.col("path")
        for base in (path, path.str.replace(r"\.[^./]*$", "")):
            rows = others.select(base.alias(_BASE), path.alias(_RECORDING))
            self._recordings.add(rows, bucket_of_paths(rows[_BASE]))
        return others

    def read(
        self,
        source: Source,
        workers: FileWorkers,
        known: Iterable[pl.DataFrame],
        is_young: Callable[[pl.Expr], pl.Expr],
    ) -> None:
        """Match sidecars to recordings, and read those that are new or changed.

        Args:
            source: the source.
            workers: read the files.
            known: content of sidecars from earlier scans (`CONTENT_SCHEMA`).
            is_young: whether a file that changed at a time may still be being written.

        Raises:
            ConfigError: the values of a column are of different kinds in two sidecars.
        """
        if not self._found.num_rows:
            return
        for contents in known:
            table = self._with_bases(contents.unique("path", keep="first"))
            self._known.add(table, bucket_of_paths(table[_BASE]))
        with temporary_room("a table"), tempfile.NamedTemporaryFile(suffix=".jsonl") as lines:
            for part in parts_of([self._found, self._recordings, self._known], self._most_bytes):
                for line in self._lines(part, partial(_read_all, source, workers), is_young):
                    lines.write(json.dumps(line).encode() + b"\n")
            lines.flush()
            if lines.tell():
                self._read_lines(Path(lines.name))

    def intervals(self) -> IntervalRows | None:
        """The intervals in the column of rows, which then is not joined; None without sidecars or such a column.

        A recording with an invalid sidecar has a row without times, so that it can be rejected.

        Raises:
            ConfigError: no sidecar has the column.
        """
        if self._columns is None or self._rows is None:
            return None
        table = _IntervalTable(self._columns, self._most_bytes, self._stored.get(self._rows, self._rows))
        rows = IntervalRows.of(table, table.column, "path", SPAN_ROLES)
        names = {table.column, *rows.schema}
        self._dropped = tuple(name for name in self.schema if name in names)
        self.schema = pl.Schema({name: dtype for name, dtype in self.schema.items() if name not in names})
        return rows

    def joined(self, candidates: pl.DataFrame, part: range) -> pl.DataFrame:
        """Recordings or rows of a part with the columns of their sidecars, `sidecars` and `FAULT`.

        Of several rows of a recording, the first has `sidecars`.
        """
        if self._columns is None:
            return candidates
        columns = self._columns.part(part).drop(*self._dropped, _OF_ROWS)
        joined = candidates.join(columns, on="path", how="left", maintain_order="left")
        return joined.with_columns(pl.when(pl.col("path").is_first_distinct()).then("sidecars").alias("sidecars"))

    def contents(self) -> Iterator[pl.DataFrame]:
        """The contents of the sidecars that are valid (`CONTENT_SCHEMA`), for a scan directly after this one."""
        for part in () if self._columns is None else parts_of([self._columns], self._most_bytes):
            yield sidecar_contents(self._columns.part(part)["sidecars"])  # type: ignore[union-attr]  # as above

    def close(self) -> None:
        """Delete the temporary files."""
        for table in (self._found, self._recordings, self._known, self._columns):
            if table is not None:
                table.close()

    def _with_bases(self, files: pl.DataFrame) -> pl.DataFrame:
        """Files with their path before the extension of a sidecar, and this extension; null for other files."""
        path, base = pl.col("path"), pl.lit(None, dtype=pl.String)
        extension = base
        for name in reversed(self._extensions):  # the longest that fits decides
            fits = path.str.to_lowercase().str.ends_with(f".{name.lower()}")
            base = pl.when(fits).then(path.str.head(-len(name) - 1)).otherwise(base)
            extension = pl.when(fits).then(pl.lit(name)).otherwise(extension)
        return files.with_columns(base.alias(_BASE), extension.alias(_EXTENSION))

    def _lines(
        self, part: range, read: Callable[[list[_Wanted]], Iterable[_Result]], is_young: Callable[[pl.Expr], pl.Expr]
    ) -> Iterator[dict[str, Any]]:
        """An object for each recording of a part that has sidecars."""
        found, recordings = self._found.part(part), self._recordings.part(part).unique()
        known = self._known.part(part).select(*STAMP_SCHEMA, "content")
        found = found.join(known, on=list(STAMP_SCHEMA), how="left", maintain_order="left")
        waits = pl.col("content").is_null() & is_young(pl.col("mtime_ns")).fill_null(value=False)
        young, settled = found.filter(waits), found.filter(~waits)
        beside = settled.join(recordings, on=_BASE, how="semi")
        self.num_alone += found.join(recordings, on=_BASE, how="anti").height
        new = beside.filter(pl.col("content").is_null())
        wanted = [_Wanted(*row) for row in new.select(*STAMP_SCHEMA, _EXTENSION, "reason").iter_rows()]
        results = {result.path: result for result in read(wanted)}
        changed = [path for path, result in results.items() if result.content is None and result.fault is None]
        is_changed = pl.col("path").is_in(pl.Series(changed, dtype=pl.String).implode())
        kept = settled.filter(~is_changed)
        self.stamps.append(stamps_of(*(kept[name] for name in STAMP_SCHEMA)))
        waiting = pl.concat([young, settled.filter(is_changed)]).join(recordings, on=_BASE)
        held = waiting.select(pl.col(_RECORDING).alias("path"), "mtime_ns").group_by("path").max()
        self.held = pl.concat([self.held, held])
        pairs = kept.join(recordings, on=_BASE).filter(~pl.col(_RECORDING).is_in(held["path"].implode()))
        rows = pairs.select(_RECORDING, *STAMP_SCHEMA, "content", _EXTENSION).sort(_RECORDING, "path").iter_rows()
        for recording, files in groupby(rows, key=lambda row: str(row[0])):
            yield _line(recording, [_Sidecar.of(row[1:], results) for row in files], self._types, self._rows)

    def _read_lines(self, file: Path) -> None:
        """Read the lines of all recordings as a table."""
        lines = read_json_lines(file, "sidecars", (), self._types, named=partial(_names_in, file))
        table = with_stored_types(lines, self._types)
        self._stored = stored = stored_names(sorted(name for name in table.schema if not name.startswith("\0")))
        own = {_PATH: "path", _STORED: "sidecars", FAULT: FAULT, _OF_ROWS: _OF_ROWS}
        self.schema = pl.Schema({name: table.schema[user] for user, name in stored.items()})
        columns = [pl.col(name).alias(new) for name, new in (own | stored).items()]
        for batch in table.batches():
            rows = batch.select(columns)
            self._columns = self._columns or Buckets(rows.schema, self._most_bytes)
            self._columns.add(rows, bucket_of_paths(rows["path"]))


@dataclass(frozen=True, slots=True)
class _IntervalTable:
    """A `MetadataTable` of the intervals in a column of sidecars, by path."""

    rows: Buckets
    most_bytes: int
    column: str

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return pl.Schema({name: self.rows.schema[name] for name in ("path", self.column) if name in self.rows.schema})

    def batches(self) -> Iterator[pl.DataFrame]:
        """The recordings, part by part."""
        return (batch for batch, _ in self.with_origins())

    def with_origins(self) -> Iterator[tuple[pl.DataFrame, RowOrigin]]:
        """The recordings, part by part, and the sidecar with the intervals of each."""
        dtype = self.schema[self.column]
        without_times = pl.lit([{}], dtype=dtype)
        for part in parts_of([self.rows], self.most_bytes):
            rows = self.rows.part(part)
            intervals = pl.when(pl.col(FAULT).is_null()).then(self.column).otherwise(without_times)
            yield rows.select("path", intervals.alias(self.column)), RowOrigin(None, rows[_OF_ROWS])


class _Sidecar(NamedTuple):
    """A sidecar with its content, or the reason why it has none."""

    file: SidecarFile
    extension: str
    fault: str | None

    @classmethod
    def of(cls, row: tuple[Any, ...], results: Mapping[str, _Result]) -> "_Sidecar":
        """A sidecar that was read, or whose content is known."""
        path, num_bytes, mtime_ns, ctime_ns, content, extension = row
        result = results.get(path, _Result(path, content, None))
        return cls(SidecarFile(path, num_bytes, mtime_ns, ctime_ns, result.content or ""), extension, result.fault)

    def values(self) -> dict[str, Any]:
        """Column → value."""
        found = strict_json(self.file.content)
        return found if isinstance(found, dict) else {self.extension: found}


def _line(
    recording: str, sidecars: Sequence[_Sidecar], types: Mapping[str, ColumnType], rows: str | None
) -> dict[str, Any]:
    """The object of a recording: the values of its sidecars, or what is wrong with them."""
    names = ", ".join(one.file.path for one in sidecars)
    own = {_PATH: recording, _NAMES: names, _STORED: None, FAULT: None, _OF_ROWS: None}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for one in sidecars:
        if one.fault is not None:
            return own | {FAULT: f"its sidecar {one.file.path} {one.fault}"}
        for name, value in one.values().items():
            if name in values:
                return own | {FAULT: f"its sidecars {origins[name]} and {one.file.path} both have {name!r}"}
            if name in types and not fits(value, types[name]):
                return own | {FAULT: str(misfit(f"its sidecar {one.file.path}", name, value, types[name]))}
            values[name], origins[name] = value, one.file.path
    stored = sidecars_json(one.file for one in sidecars)
    return own | {_STORED: stored, _OF_ROWS: origins.get(rows or "")} | values


def _names_in(file: Path, number: int) -> str:
    """The sidecars of a line."""
    with file.open("rb") as lines:
        line = next(line for found, line in enumerate(lines, 1) if found == number)
    return str(json_value(line)[_NAMES])


def _read_all(source: Source, workers: FileWorkers, wanted: list[_Wanted]) -> Iterable[_Result]:
    return workers.map(partial(_read, source), wanted)


def _read(source: Source, file: _Wanted) -> _Result:
    """Read a sidecar."""
    if file.num_bytes is None or file.mtime_ns is None or file.ctime_ns is None:
        return _Result(file.path, None, f"cannot be read: {file.reason}")
    if file.num_bytes > MOST_BYTES:
        return _Result(file.path, None, f"has {file.num_bytes} bytes; at most {MOST_BYTES} are read")
    fault = None
    try:
        with source.open(file.path, FileStamp(file.num_bytes, file.mtime_ns, file.ctime_ns)) as opened:
            return _parsed(file, opened.read().decode("utf-8-sig"))
    except (FileNotFoundError, FileChangedError):
        pass
    except UnsafePathError:
        fault = "leads outside the source root"
    except UnicodeDecodeError as error:
        fault = f"is not valid UTF-8 (byte {error.start})"
    except OSError as error:
        fault = f"cannot be read: {error.strerror or error}"
    return _Result(file.path, None, fault)


def _parsed(file: _Wanted, text: str) -> _Result:
    """The values of a sidecar: an object of JSON, or the text itself as JSON."""
    if file.extension.lower().rpartition(".")[2] != "json":
        return _Result(file.path, json.dumps(text.rstrip("\r\n")), None)
    try:
        found = strict_json(text)
        if isinstance(found, dict):
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _Result(file.path, None, "has half of a surrogate pair, which is not a character")
    except (ValueError, RecursionError) as error:
        return _Result(file.path, None, f"is not valid JSON: {error}")
    if not isinstance(found, dict):
        return _Result(file.path, None, "is not an object of JSON")
    if odd := [name for name in found if "\0" in name]:
        return _Result(file.path, None, f"has the name {odd[0]!r}; a zero character is not allowed in a name")
    return _Result(file.path, json.dumps(found), None)
