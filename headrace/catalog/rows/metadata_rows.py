"""Prepares the metadata table for joining it to the files of a source. Pure.

The prepared table has the catalog's column names, and each row once. With `source.samples: files` it has each path
once. This module normalizes the spelling of paths, merges equal rows, and gives a reason for each row that matches no
file. `headrace.catalog.rows.row_columns` finds the columns that have a meaning.

The table is read in batches (`TableReader`). All rows with one path are then prepared together, but not necessarily
with other rows (`prepared_rows`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from headrace.catalog.rows.chosen_rows import RowCondition
from headrace.catalog.rows.metadata_columns import check_types, json_rows, stored_names
from headrace.catalog.rows.path_spelling import spelled_as_files, tidy_paths
from headrace.catalog.rows.row_columns import (
    EXPLICIT_KEY,
    PLACE,
    ROW_NUMBER,
    SHOWN,
    SPAN_COLUMNS,
    SPAN_FAULT,
    RowColumns,
    ours,
    path_columns,
    row_name,
    row_said,
    rows_said,
    rows_with_two_ends,
    two_ends,
    with_roles,
)
from headrace.catalog.rows.row_paths import AreFiles, is_near, names_of_file, with_near_files
from headrace.catalog.rows.row_places import is_unjoined, with_places
from headrace.catalog.tables.corpus_tables import ChosenTable
from headrace.catalog.tables.interval_rows import IntervalRows
from headrace.catalog.tables.metadata_files import MetadataTable, TableFiles, with_origins
from headrace.catalog.tables.row_origins import RowOrigin
from headrace.config.source import ColumnsConfig, SampleKind
from headrace.errors import ConfigError
from headrace.format.rejects import RejectReason
from headrace.format.typed_json import json_value

NAMESAKE_HINT = "paths are relative to source.uri, and a file of that name is"
"""Part of the reason of a row that matches no file, if a file of the same name is in another folder of the source."""

_CONTENT = "\0content"
_FILE = "\0file"
_NAME = "\0name"
_NAMESAKE = "\0namesake"
_HIDDEN = r"(^|/)\."
_BASE_NAME = r"([^/]*)$"
_SLICE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class MetadataRows:
    """The metadata table with each row once; with `SampleKind.FILES`, with each path once.

    Attributes:
        table: `path` as the source spells it, the columns of `headrace.catalog.rows.row_columns`, and the user's
            columns under the catalog's names. Rows without a path are included.
        num_merged: rows that were left out because they repeat another row.
        differing: paths whose rows differ although they must not, with the number of the first row, and with the names
            of the rows and their contents.
    """

    table: pl.DataFrame
    num_merged: int = 0
    differing: pl.DataFrame = field(default_factory=pl.DataFrame)

    def joinable(self) -> pl.DataFrame:
        """The rows that have a path, without the columns of spans."""
        return self.table.filter(pl.col("path").is_not_null()).drop(ROW_NUMBER, PLACE, *SPAN_COLUMNS)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings for reading the metadata table.

    Attributes:
        samples: what becomes a sample.
        columns: which columns have a meaning.
        fields: audio field → column with the path of its file.
        root: the source's root; paths that begin with it are made relative.
        where: the condition that rows fulfil; other rows are left out.
    """

    samples: SampleKind = SampleKind.FILES
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    fields: Mapping[str, str] = field(default_factory=dict)
    root: str = ""
    where: str | None = None


class TableReader:
    """Reads the metadata table in batches, with normalized paths, and numbers its rows.

    Attributes:
        schema: names and types of the columns of a batch.
        num_rows: rows that have been read.
        num_left_out: those of them that the condition, or the corpus itself, leaves out.
    """

    def __init__(self, metadata: MetadataTable | None, settings: TableSettings) -> None:
        """Nothing is read yet.

        Args:
            metadata: the table; None for an empty one.
            settings: how it is read.

        Raises:
            ConfigError: the table has no column `path` or lacks a column that the settings name, a column cannot be
                stored, or the condition is not one on the columns of the table.
        """
        self._metadata = metadata
        self._settings = settings if metadata is not None else TableSettings()
        names = ["path"] if metadata is None else list(metadata.schema)
        self._roles = RowColumns.of(self._settings.columns, self._settings.samples, names, self._settings.fields)
        empty = pl.DataFrame(schema={"path": pl.String} if metadata is None else metadata.schema)
        check_types(empty)
        self._names = stored_names(name for name in names if name != self._roles.unmapped_path)
        where = self._settings.where
        self._condition = None if where is None else RowCondition.of(where, empty.schema)
        self.num_rows = self.num_left_out = 0
        self.schema = self._tidy(empty).schema

    @property
    def has_folders(self) -> bool:
        """Whether paths may be relative to the folder of the table's file, and not to the source."""
        files = self._metadata.files if isinstance(self._metadata, TableFiles | IntervalRows) else ()
        return any(is_near(file, self._settings.root) for file, _ in files)

    def batches(self, are_files: AreFiles | None = None) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """The rows, batch by batch, and those of the batch that are left out.

        Args:
            are_files: returns which paths are files of the source, to find paths that are relative to the folder of the
                table's file; None takes all paths as relative to the source.

        Raises:
            ConfigError: a path names two files, or, at the end, rows have both an end and a duration.
        """
        both: list[str] = []
        num_both = 0
        for batch, origin in () if self._metadata is None else with_origins(self._metadata):
            table = self._tidy(batch, origin)
            if origin is not None and origin.file is not None and are_files is not None:
                table = with_near_files(table, origin.file, self._settings.root, are_files)
            self.num_rows += table.height
            is_chosen = self._chosen(batch)
            table, left_out = table.filter(is_chosen), table.filter(~is_chosen)
            self.num_left_out += left_out.height
            found = rows_with_two_ends(table)
            num_both += len(found)
            both += found.head(SHOWN - len(both)).to_list() if len(both) < SHOWN else []
            yield table, left_out
        if isinstance(self._metadata, ChosenTable):
            self.num_rows += self._metadata.num_left_out
            self.num_left_out += self._metadata.num_left_out
        if num_both:
            raise two_ends(self._roles, both, num_both)

    def _chosen(self, batch: pl.DataFrame) -> pl.Series:
        """Whether each row of a batch fulfils the condition."""
        if self._condition is None:
            return pl.repeat(value=True, n=batch.height, eager=True)
        return self._condition.chosen(batch)

    def _tidy(self, metadata: pl.DataFrame, origin: RowOrigin | None = None) -> pl.DataFrame:
        """A batch under the catalog's column names, with normalized paths, and the columns with a meaning."""
        users = {stored: pl.col(name) for name, stored in self._names.items()}
        file = {} if origin is None or origin.file is None else names_of_file(origin.file, self._settings.root)
        table = with_roles(metadata, self._roles, users, self.num_rows + 1, file)
        if origin is not None and origin.file is None:  # its paths are spelled as the listing has them
            return with_places(table, origin)
        tidy = (tidy_paths(table[name], self._settings.root) for name in path_columns(table))
        return with_places(table.with_columns(tidy), origin)


def prepared_rows(table: pl.DataFrame, samples: SampleKind, files: pl.Series) -> MetadataRows:
    """Rows of a `TableReader`, prepared for the join. Equal rows are merged.

    The paths of other audio fields than the first stay as they are (`headrace.catalog.scanning.field_lookup` spells
    them).

    Args:
        table: rows; if it has one row with a path, it has all of them.
        samples: what becomes a sample.
        files: all paths of the source that these rows may name in `path`.
    """
    table = table.with_columns(spelled_as_files(table["path"], files))
    return _merged_rows(table) if samples == SampleKind.ROWS else _merged(table)


def rejected_metadata_rows(rows: MetadataRows, files: pl.Series, *, of_corpus: bool = False) -> pl.DataFrame:
    """Rows of the metadata table that match no file: `path`, `key` if the row has one, `code`, `reason`.

    `with_namesakes` completes the reasons.

    Args:
        rows: the table.
        files: the paths of all files that these rows may name.
        of_corpus: whether the paths are those of the corpus itself, which may lead anywhere.
    """
    path = pl.col("path").fill_null("")
    is_unknown = ~path.is_in(files.implode())
    leaves = path.str.starts_with("/") | path.str.contains(r"^\.\.(/|$)")
    verdicts = [
        (RejectReason.BAD_NAME, (path == "") & is_unjoined(), row_said("{}", pl.col(SPAN_FAULT))),
        (RejectReason.BAD_NAME, path == "", row_said("has no path")),
        (
            RejectReason.METADATA_WITHOUT_FILE,
            is_unknown & of_corpus,
            row_said("names {}, which is not a recording of the source", path),
        ),
        (
            RejectReason.OUTSIDE_ROOT,
            is_unknown & leaves,
            row_said("names a path outside the source root; write it relative to the root"),
        ),
        (
            RejectReason.METADATA_WITHOUT_FILE,
            is_unknown & path.str.contains(_HIDDEN),
            row_said("names a hidden file or folder (its name begins with a dot), which is not listed"),
        ),
        (RejectReason.METADATA_WITHOUT_FILE, is_unknown, row_said("names no file of the source")),
    ]
    code, reason = pl.lit(None, dtype=pl.String), pl.lit(None, dtype=pl.String)
    for word, condition, said in reversed(verdicts):  # the first condition that holds decides
        code, reason = (
            pl.when(condition).then(new).otherwise(old) for new, old in ((pl.lit(word), code), (said, reason))
        )
    judged = rows.table.select(path.alias("path"), pl.col(EXPLICIT_KEY).alias("key"), code=code, reason=reason)
    return judged.filter(pl.col("code").is_not_null())


def _merged(table: pl.DataFrame) -> MetadataRows:
    """The table with each path once."""
    has_path = pl.col("path").is_not_null() & (pl.col("path") != "")
    several = table.filter(has_path & pl.col("path").is_duplicated())
    if several.is_empty():
        return MetadataRows(table)
    contents = several.select("path", ROW_NUMBER, row_name().alias(_NAME), _contents(several))
    groups = contents.group_by("path", maintain_order=True).agg(pl.col(ROW_NUMBER).first(), _NAME, _CONTENT)
    differing = groups.filter(pl.col(_CONTENT).list.n_unique() > 1)
    merged = table.filter(~has_path | pl.col("path").is_first_distinct())
    return MetadataRows(merged, table.height - merged.height, differing)


def _merged_rows(table: pl.DataFrame) -> MetadataRows:
    """The table with each row once. Rows are equal if path, span, key and metadata are."""
    identity = ["path", EXPLICIT_KEY, *SPAN_COLUMNS]
    are_alike = pl.struct(identity).is_duplicated()
    several = table.filter(are_alike)
    if several.is_empty():
        return MetadataRows(table)
    contents = several.select(*identity, ROW_NUMBER, _contents(several))
    kept = contents.unique([*identity, _CONTENT], keep="first")
    merged = table.filter(~are_alike | pl.col(ROW_NUMBER).is_in(kept[ROW_NUMBER].implode()))
    return MetadataRows(merged, table.height - merged.height)


def _contents(table: pl.DataFrame) -> pl.Series:
    """Metadata of each row, as one line of JSON."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    texts: list[str] = []
    for piece in table.iter_slices(_SLICE_ROWS):
        _, rows = json_rows(piece.drop(ours(piece)))
        texts += map(encode, rows)
    return pl.Series(_CONTENT, texts, dtype=pl.String)


class DifferingRows:
    """Collects the paths of all parts whose rows differ, for one message: their number, and the first few."""

    def __init__(self) -> None:
        """None yet."""
        self.num_paths = 0
        self._first: list[tuple[str, int, list[str], list[str]]] = []

    def add(self, rows: MetadataRows) -> None:
        """Add those of a part."""
        self.num_paths += rows.differing.height
        found = [*self._first, *rows.differing.head(SHOWN).iter_rows()]
        self._first = sorted(found, key=lambda entry: entry[1])[:SHOWN]

    def check(self, schema: pl.Schema) -> None:
        """Raise `ConfigError` if there are any. `schema` is that of the `TableReader`."""
        if not self.num_paths:
            return
        empty = schema.to_frame()
        columns = json_rows(empty.drop(ours(empty)))[0]
        shown = []
        for path, _, rows, contents in self._first:
            values = zip(*map(json_value, contents), strict=True)
            pairs = zip(columns, values, strict=True)
            names = [name for name, found in pairs if any(value != found[0] for value in found)]
            shown.append(f"{path!r} ({rows_said(rows)} differ in {', '.join(names)})")
        more = f" and {self.num_paths - SHOWN} more" if self.num_paths > SHOWN else ""
        raise ConfigError(
            f"the metadata table has rows that differ for the same path (paths: {self.num_paths}): "
            f"{'; '.join(shown)}{more}. "
            "With source.samples: files, each recording has one row; keep one of them. A table with one sample per row "
            "needs source.samples: rows"
        )


def with_namesakes(
    rejected: Iterable[pl.DataFrame], files: Callable[[], Iterable[pl.Series]]
) -> Iterator[pl.DataFrame]:
    """Rejected rows, table by table. If a file of the same name is in another folder, the reason names it.

    Args:
        rejected: tables of `rejected_metadata_rows`; they are read twice.
        files: reads the paths of all files, part by part. It is called only if it may find something.
    """
    is_miss = pl.col("code").is_in([RejectReason.METADATA_WITHOUT_FILE, RejectReason.OUTSIDE_ROOT])
    base = pl.col("path").str.extract(_BASE_NAME)
    wanted = pl.concat([table.filter(is_miss).select(base.alias(_FILE)).unique() for table in rejected]).unique()
    if wanted.is_empty():
        yield from rejected
        return
    found = [pl.DataFrame(schema={_FILE: pl.String, _NAMESAKE: pl.String})]
    for paths in files():
        named = paths.to_frame("path").select(base.alias(_FILE), pl.col("path").alias(_NAMESAKE))
        found.append(named.join(wanted, on=_FILE, how="semi"))
    known = pl.concat(found).sort(_NAMESAKE).unique(_FILE, keep="first")
    hint = pl.format(f"{{}}; {NAMESAKE_HINT} {{}}", "reason", _NAMESAKE)
    is_hinted = is_miss & pl.col(_NAMESAKE).is_not_null()
    for table in rejected:
        named = table.with_columns(base.alias(_FILE)).join(known, on=_FILE, how="left", maintain_order="left")
        yield named.with_columns(reason=pl.when(is_hinted).then(hint).otherwise("reason")).drop(_FILE, _NAMESAKE)
