"""`kind: parquet`: Parquet files with a column of audio, as Hugging Face data sets have them; each row is a sample.

The column has the bytes of a file (binary, or a struct with `bytes` and `path`), or the path of one. Bytes are
read a row group at a time and are never written to disk. Parquet does not say how long a value is, so a process reads a
new or changed file once to list it, and a scan once more to open the rows, in the order of the listing. A build says in
which order it opens rows; those that are next are kept when a row group is decoded (`headrace.sources.rows_ahead`).
"""

import functools
import posixpath
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headrace.config.section import Section
from headrace.errors import ConfigError, NotFoundError
from headrace.source_kinds import SourceKind
from headrace.sources.corpus_rows import own_columns
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.kinds.row_groups import row_groups
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import Kept, NameIndex, SeenNames
from headrace.sources.named_files import files_of, folder_of, joined, opened, relative, root_of, stamp_of_file
from headrace.sources.rows_ahead import RowsAhead

if TYPE_CHECKING:
    import polars as pl

    _TableOf = Callable[[str, FileStamp | None, str], pl.DataFrame]

_EXTENSION = ".parquet"
_KEPT_FILES = 4096
_KEPT_TABLES = 4  # with the paths of all rows: a listing goes from file to file
_CHUNK_BYTES = 32 << 20
_BUILD_CHUNK_BYTES = 128 << 20  # of it only the rows that are opened next are kept
_ROOM_BYTES = 1 << 20  # that a kept chunk counts at least: 64 chunks are more than threads work in
_ROWS = 1000
_BYTES, _PATH, _IS_NAME = "bytes", "path", "is_name"
_reading = threading.Lock()  # several threads that want one chunk read it once
_numbers = Kept[NameIndex](lambda index: index.num_bytes)
_chunks = Kept[tuple[bytes | None, ...]](lambda chunk: max(_ROOM_BYTES, sum(len(value or b"") for value in chunk)))


class ParquetOptions(Section):
    """The options of `kind: parquet`.

    Attributes:
        audio: the column of audio; None for the only struct with `bytes` and `path`.
    """

    audio: str | None = None


class _Row(NamedTuple):
    """The audio of a row: the row's number and name, and the number of bytes, or the file that it names."""

    number: int
    name: str
    num_bytes: int | None
    file: str


@dataclass(eq=False)
class ParquetItems:
    """The rows of Parquet files.

    Attributes:
        files: the files, in order.
        root: the folder to which paths in the listing are relative.
        options: see `ParquetOptions`.
    """

    files: tuple[str, ...]
    root: str
    options: ParquetOptions
    _ahead: RowsAhead = field(init=False, default_factory=RowsAhead)

    def items(self) -> Iterator[Item]:
        """See `Items.items`."""
        for file in self.files:
            self._numbers(file, _audio_of)  # a scan opens the rows later, when this table is forgotten
            for row in self._rows(file):
                yield self._item(file, row)

    def place(self, path: str, stamp: FileStamp) -> Place:
        """See `Items.place`."""
        table, number = self._row(path)
        if not table:
            return Place(joined(self.root, path))
        if number is None:
            raise NotFoundError(f"{table}: there is no row {path!r}")
        read = partial(_value, self._ahead, table, (stamp.mtime_ns, stamp.ctime_ns), self._column(table), number)
        return Place(table, content=read)

    def will_open(self, recordings: Sequence[tuple[str, int]]) -> None:
        """See `ReadsAhead`."""
        self._ahead = RowsAhead((self._row(path), num_bytes) for path, num_bytes in recordings)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`. Columns of bytes are left out."""
        for file in self.files:
            for row, content in zip(self._rows(file), _other_columns(file, self._column(file)), strict=True):
                yield {"path": self._item(file, row).path, **own_columns(content, ("path",))}

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return self.files

    def _row(self, path: str) -> tuple[str, int | None]:
        """The file and the number of a row, None if the file has no such row; an empty file if the path is no row's."""
        file, mark, name = path.rpartition(f"{_EXTENSION}/")
        table = joined(self.root, f"{file}{_EXTENSION}")
        return (table, self._numbers(table, _names_of).number(name)) if mark and table in self.files else ("", None)

    def _column(self, file: str) -> str:
        return _audio_column(file, stamp_of_file(file), self.options.audio)

    def _rows(self, file: str) -> Iterator[_Row]:
        return _named_rows(_audio_of(file, stamp_of_file(file), self._column(file)))

    def _numbers(self, file: str, table: "_TableOf") -> NameIndex:
        """The number of each row by its name: kept for many files, for recordings that are opened in any order."""
        stamp = stamp_of_file(file)
        column = _audio_column(file, stamp, self.options.audio)

        def made() -> NameIndex:
            names = [row.name for row in _named_rows(table(file, stamp, column))]
            return NameIndex(names, range(len(names)))

        return _numbers.of((file, stamp, column), made)

    def _item(self, file: str, row: _Row) -> Item:
        path = f"{relative(self.root, file)}/{row.name}"
        if row.num_bytes is not None:
            return Item(path, file, row.num_bytes)
        if not row.file:
            return Item(path, fault=f"row {row.number + 1} of {file} has no audio")
        named = joined(folder_of(file), row.file)
        return Item(relative(self.root, named), named)


def _scan(file: str) -> "pl.LazyFrame":
    import polars as pl  # noqa: PLC0415 - a code server does not load it until a source needs it

    return pl.scan_parquet(file, low_memory=True, glob=False)


@functools.lru_cache(maxsize=_KEPT_FILES)
def _audio_column(file: str, _stamp: FileStamp | None, named: str | None) -> str:
    """The column of audio. Raises `ConfigError` if it is not there, or has another type."""
    import polars as pl  # noqa: PLC0415 - as above

    try:
        schema = _scan(file).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{file}: not a readable Parquet file: {error}") from error
    structs = [name for name, dtype in schema.items() if _fields(dtype) >= {_BYTES, _PATH}]
    if named is None:
        if len(structs) != 1:
            raise ConfigError(
                f"{file}: expected one column of structs with bytes and path, found {len(structs)}; source.options: "
                f"{{audio: COLUMN}} names the column of audio, and the columns are {', '.join(schema)}"
            )
        return structs[0]
    if named not in schema:
        raise ConfigError(f"{file}: options.audio: there is no column {named!r}; the columns are {', '.join(schema)}")
    if not (_fields(schema[named]) & {_BYTES, _PATH} or schema[named] in {pl.Binary, pl.String}):
        raise ConfigError(
            f"{file}: options.audio: column {named!r} is {schema[named]}; expected bytes, or their struct"
        )
    return named


def _fields(dtype: "pl.DataType") -> set[str]:
    return {field.name for field in getattr(dtype, "fields", ())}


def _parts(file: str, column: str) -> "tuple[pl.Expr, pl.Expr]":
    """The bytes and the paths of the column of audio."""
    import polars as pl  # noqa: PLC0415 - as above

    dtype, values = _scan(file).collect_schema()[column], pl.col(column)
    nothing = pl.lit(None)
    if fields := _fields(dtype):
        data, paths = (values.struct.field(name) if name in fields else nothing for name in (_BYTES, _PATH))
    else:
        data, paths = (values, nothing) if dtype == pl.Binary else (nothing, values)
    return data.cast(pl.Binary), paths.cast(pl.String)


@functools.lru_cache(maxsize=_KEPT_TABLES)
def _audio_of(file: str, _stamp: FileStamp | None, column: str) -> "pl.DataFrame":
    """For each row of a file the length of its bytes, its path, and whether no other row has this path.

    Raises `ConfigError`.
    """
    import polars as pl  # noqa: PLC0415 - as above

    data, paths = _parts(file, column)
    try:
        table = _scan(file).select(data.bin.size().alias(_BYTES), paths.alias(_PATH)).collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{file}: not a readable Parquet file: {error}") from error
    return _with_names(table)


def _names_of(file: str, stamp: FileStamp | None, column: str) -> "pl.DataFrame":
    """`_audio_of`, maybe without lengths: polars decodes bytes to read the paths beside them, and pyarrow does not."""
    import polars as pl  # noqa: PLC0415 - as above

    try:
        import pyarrow.parquet  # noqa: PLC0415 - of an extra

        with opened(file) as data:
            found = pyarrow.parquet.ParquetFile(data).read([f"{column}.{_PATH}"])
        paths = cast("pl.Series", pl.from_arrow(found.column(column))).struct.field(_PATH).cast(pl.String)
    except (ImportError, LookupError, TypeError, ValueError, OSError, pl.exceptions.PolarsError):  # as polars has it
        return _audio_of(file, stamp, column)
    return _with_names(paths.to_frame().select(pl.lit(None).alias(_BYTES), _PATH))


def _with_names(table: "pl.DataFrame") -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415 - as above

    return table.with_columns((pl.col(_PATH).is_unique() & pl.col(_PATH).is_not_null()).alias(_IS_NAME))


def _named_rows(audio: "pl.DataFrame") -> Iterator[_Row]:
    """The rows in order. The name is the path in the column, or where that is not unique a number."""
    seen, start = SeenNames(), 0
    for part in audio.iter_slices(_ROWS):
        names = [posixpath.normpath(path).lstrip("/") if is_name and path else "" for _, path, is_name in part.rows()]
        names = ["" if name.startswith(".") or name.isdecimal() else name for name in names]
        is_free = seen.add(names)
        for number, (name, is_new, (num_bytes, path, _)) in enumerate(
            zip(names, is_free, part.iter_rows(), strict=True), start
        ):
            yield _Row(number, name if name and is_new else str(number), num_bytes, path or "")
        start += part.height


def _value(ahead: RowsAhead, file: str, times: tuple[int, int], column: str, number: int) -> bytes:
    """The bytes of a row. Of the rows around it, those are kept that are opened next: in a scan, all of them."""
    with _reading:
        rows = _rows_around(file, times, number, _BUILD_CHUNK_BYTES)
        value = ahead.value((file, number), times, rows, partial(_chunk, file, column, rows))
        if value is None:
            rows = _rows_around(file, times, number, _CHUNK_BYTES)
            chunk = _chunks.of((file, times, column, rows.start), lambda: tuple(_chunk(file, column, rows)))
            value = chunk[number - rows.start]
    return value or b""


def _rows_around(file: str, times: tuple[int, int], number: int, most_bytes: int) -> range:
    """The rows of the chunk of a row."""
    starts = _starts(file, times, most_bytes)
    at = bisect_right(starts, number) - 1
    return range(starts[at], starts[at + 1])


@functools.lru_cache(maxsize=_KEPT_FILES)
def _starts(file: str, _times: tuple[int, int], most_bytes: int) -> list[int]:
    """First row of each chunk that is read at a time, and the number of rows.

    A chunk is a row group, or a part of one that has more bytes.
    """
    with opened(file) as data:
        groups = row_groups(data)
    edges = [0]
    for num_rows, num_bytes in groups:
        step = max(1, most_bytes * num_rows // max(1, num_bytes))
        stop = edges[-1] + num_rows
        edges += [*range(edges[-1] + step, stop, step), stop]
    return edges


def _chunk(file: str, column: str, rows: range) -> "pl.Series":
    import polars as pl  # noqa: PLC0415 - as above

    try:
        values = _scan(file).slice(rows.start, len(rows)).select(_parts(file, column)[0].alias(_BYTES)).collect()
    except pl.exceptions.PolarsError as error:
        raise OSError(f"{file}: rows from {rows.start + 1} cannot be read: {error}") from error
    return values.to_series()


def _other_columns(file: str, column: str) -> Iterator[Mapping[str, Any]]:
    """The rows of a file without its audio, and without other columns of bytes."""
    import polars as pl  # noqa: PLC0415 - as above

    schema = _scan(file).collect_schema()
    names = [name for name, dtype in schema.items() if name != column and "Binary" not in str(dtype)]
    if not names:
        yield from ({} for _ in range(_scan(file).select(pl.len()).collect().item()))
        return
    try:
        table = _scan(file).select(names).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{file}: not a readable Parquet file: {error}") from error
    for batch in table.iter_slices(_ROWS):
        yield from batch.iter_rows(named=True)


def _open(uri: str, options: ParquetOptions, _exclude: Sequence[str]) -> ItemCorpus:
    if "://" in uri and not uri.startswith("file://"):
        raise ConfigError(f"source.uri {uri}: Parquet files are read on this machine; copy them to a folder")
    files = files_of(uri, (_EXTENSION,))
    return ItemCorpus(uri, ParquetItems(tuple(files), root_of(uri, files), options))


KIND = SourceKind(_open, ParquetOptions, columns={})
