"""Prepares the metadata table for joining it to the files of a source. Pure.

The prepared table has the catalog's column names, and each row once. With `source.samples: files` it has each path
once. This module normalizes the spelling of paths, merges equal rows, and gives a reason for each row that matches no
file. `headrace.catalog.row_columns` finds the columns that have a meaning.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from headrace.catalog.metadata_columns import check_types, json_rows, stored_names
from headrace.catalog.path_spelling import spelled_as_files, tidy_paths
from headrace.catalog.row_columns import (
    EXPLICIT_KEY,
    ROW_NUMBER,
    SPAN_COLUMNS,
    RowColumns,
    ours,
    path_columns,
    row_said,
    with_roles,
)
from headrace.config.source import ColumnsConfig, SampleKind
from headrace.errors import ConfigError
from headrace.format.rejects import RejectReason

NAMESAKE_HINT = "paths are relative to source.uri, and a file of that name is"
"""Part of the reason of a row that matches no file, if a file of the same name is in another folder of the source."""

_CONTENT = "\0content"
_FILE = "\0file"
_NAMESAKE = "\0namesake"
_HIDDEN = r"(^|/)\."
_BASE_NAME = r"([^/]*)$"
_SLICE_ROWS = 10_000
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MetadataRows:
    """The metadata table with each row once; with `SampleKind.FILES`, with each path once.

    Attributes:
        table: `path` as the source spells it, the columns of `headrace.catalog.row_columns`, and the user's columns
            under the catalog's names. Rows without a path are included.
        num_merged: rows that were left out because they repeat another row.
    """

    table: pl.DataFrame
    num_merged: int = 0

    def joinable(self) -> pl.DataFrame:
        """The rows that have a path, without the columns of spans."""
        return self.table.filter(pl.col("path").is_not_null()).drop(ROW_NUMBER, *SPAN_COLUMNS)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How the metadata table is read.

    Attributes:
        samples: what becomes a sample.
        columns: which columns have a meaning.
        fields: audio field → column with the path of its file.
        root: the source's root; paths that begin with it are made relative.
    """

    samples: SampleKind = SampleKind.FILES
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    fields: Mapping[str, str] = field(default_factory=dict)
    root: str = ""


def prepared_rows(metadata: pl.DataFrame | None, settings: TableSettings, files: pl.Series) -> MetadataRows:
    """The metadata table, prepared for a source with these files; an empty table for None.

    Equal rows are merged. The path `./a.wav` is `a.wav`.

    Raises:
        ConfigError: the table has no column `path` or lacks a column that the settings name, a column cannot be stored,
            or, with `SampleKind.FILES`, rows for one path differ.
    """
    if metadata is None:
        return MetadataRows(_tidy(pl.DataFrame(schema={"path": pl.String}), TableSettings()))
    table = _tidy(metadata, settings)
    paths = path_columns(table)
    table = table.with_columns(spelled_as_files(table[name], files) for name in paths)
    return _merged_rows(table) if settings.samples == SampleKind.ROWS else _merged(table)


def rejected_metadata_rows(rows: MetadataRows, files: pl.Series) -> pl.DataFrame:
    """Rows of the metadata table that match no file: `path`, `key` if the row has one, `code`, `reason`."""
    path = pl.col("path").fill_null("")
    is_unknown = ~path.is_in(files.implode())
    leaves = path.str.starts_with("/") | path.str.contains(r"^\.\.(/|$)")
    verdicts = [
        (RejectReason.BAD_NAME, path == "", "has no path"),
        (RejectReason.OUTSIDE_ROOT, leaves, "names a path outside the source root; write it relative to the root"),
        (
            RejectReason.METADATA_WITHOUT_FILE,
            is_unknown & path.str.contains(_HIDDEN),
            "names a hidden file or folder (its name begins with a dot), which is not listed",
        ),
        (RejectReason.METADATA_WITHOUT_FILE, is_unknown, "names no file of the source"),
    ]
    code, reason = pl.lit(None, dtype=pl.String), pl.lit(None, dtype=pl.String)
    for word, condition, sentence in reversed(verdicts):  # the first condition that holds decides
        said = row_said(sentence)
        code, reason = (
            pl.when(condition).then(new).otherwise(old) for new, old in ((pl.lit(word), code), (said, reason))
        )
    judged = rows.table.select(path.alias("path"), pl.col(EXPLICIT_KEY).alias("key"), code=code, reason=reason)
    return _with_namesakes(judged.filter(pl.col("code").is_not_null()), files)


def _tidy(metadata: pl.DataFrame, settings: TableSettings) -> pl.DataFrame:
    """The metadata table under the catalog's column names, with normalized paths, and the columns with a meaning."""
    roles = RowColumns.of(settings.columns, settings.samples, metadata.columns, settings.fields)
    check_types(metadata)
    names = stored_names(name for name in metadata.columns if name != roles.unmapped_path)
    table = with_roles(metadata, roles, {stored: pl.col(name) for name, stored in names.items()})
    root = settings.root.rstrip("/") + "/"
    paths = path_columns(table)
    if root != "/":
        table = table.with_columns(pl.col(paths).str.strip_prefix(root))
    return table.with_columns(tidy_paths(table[name]) for name in paths)


def _merged(table: pl.DataFrame) -> MetadataRows:
    """The table with each path once. Raises `ConfigError` if rows for one path differ."""
    has_path = pl.col("path").is_not_null() & (pl.col("path") != "")
    several = table.filter(has_path & pl.col("path").is_duplicated())
    if several.is_empty():
        return MetadataRows(table)
    contents = several.select("path", ROW_NUMBER, _contents(several))
    groups = contents.group_by("path", maintain_order=True).agg(ROW_NUMBER, _CONTENT)
    if (differing := groups.filter(pl.col(_CONTENT).list.n_unique() > 1)).height:
        raise ConfigError(_why_several(differing, _columns(several)))
    merged = table.filter(~has_path | pl.col("path").is_first_distinct())
    return MetadataRows(merged, table.height - merged.height)


def _merged_rows(table: pl.DataFrame) -> MetadataRows:
    """The table with each row once. Rows are equal if path, span, key and metadata are."""
    identity = ["path", EXPLICIT_KEY, *SPAN_COLUMNS]
    are_alike = pl.struct(identity).is_duplicated()
    several = table.filter(are_alike)
    if several.is_empty():
        return MetadataRows(table)
    contents = several.select(*identity, ROW_NUMBER, _contents(several))
    kept = contents.unique([*identity, _CONTENT], keep="first", maintain_order=True)
    merged = table.filter(~are_alike | pl.col(ROW_NUMBER).is_in(kept[ROW_NUMBER].implode()))
    return MetadataRows(merged, table.height - merged.height)


def _contents(table: pl.DataFrame) -> pl.Series:
    """Metadata of each row, as one line of JSON."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    texts: list[str] = []
    for piece in table.iter_slices(_SLICE_ROWS):
        _, rows = json_rows(piece.drop(ours(piece)))
        texts += map(encode, rows)
    return pl.Series(_CONTENT, texts, dtype=pl.String)


def _columns(table: pl.DataFrame) -> list[str]:
    """Names of the values in `_contents`, for messages."""
    return json_rows(table.drop(ours(table)).clear())[0]


def _why_several(differing: pl.DataFrame, columns: list[str]) -> str:
    shown = []
    for path, rows, contents in differing.head(_SHOWN).iter_rows():
        values = zip(*map(json.loads, contents), strict=True)
        names = [name for name, found in zip(columns, values, strict=True) if any(value != found[0] for value in found)]
        shown.append(f"{path!r} (rows {', '.join(map(str, rows))} differ in {', '.join(names)})")
    more = f" and {differing.height - _SHOWN} more" if differing.height > _SHOWN else ""
    return (
        f"the metadata table has rows that differ for the same path (paths: {differing.height}): "
        f"{'; '.join(shown)}{more}. "
        "With source.samples: files, each recording has one row; keep one of them. A table with one sample per row "
        "needs source.samples: rows"
    )


def _with_namesakes(rejected: pl.DataFrame, files: pl.Series) -> pl.DataFrame:
    """Rejected rows. If a file of the same name is in another folder of the source, the reason names it."""
    base = pl.col("path").str.extract(_BASE_NAME)
    known = files.sort().to_frame("path").select(base.alias(_FILE), pl.col("path").alias(_NAMESAKE))
    named = rejected.with_columns(base.alias(_FILE)).join(
        known.unique(_FILE, keep="first"), on=_FILE, how="left", maintain_order="left"
    )
    misses = (
        pl.col("code").is_in([RejectReason.METADATA_WITHOUT_FILE, RejectReason.OUTSIDE_ROOT])
        & pl.col(_NAMESAKE).is_not_null()
    )
    hint = pl.format(f"{{}}; {NAMESAKE_HINT} {{}}", "reason", _NAMESAKE)
    return named.with_columns(reason=pl.when(misses).then(hint).otherwise("reason")).drop(_FILE, _NAMESAKE)
