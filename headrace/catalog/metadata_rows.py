"""Prepares the metadata table for joining it to the files of a source. Pure.

The prepared table has one row per path and the catalog's column names. This module normalizes the spelling of paths,
merges equal rows for one path, and gives a reason for each row that matches no file.
"""

import json
from dataclasses import dataclass

import polars as pl

from headrace.catalog.metadata_columns import check_types, json_rows, stored_names
from headrace.catalog.path_spelling import spelled_as_files, tidy_paths
from headrace.errors import ConfigError
from headrace.format.rejects import RejectReason

EXPLICIT_KEY = "\0key"  # no column of a user has such a name
"""Name of the column with the user's key of a recording; null if the key comes from the path."""
NAMESAKE_HINT = "paths are relative to source.uri, and a file of that name is"
"""Part of the reason of a row that matches no file, if a file of the same name is in another folder of the source."""

_ROW = "\0row"
_CONTENT = "\0content"
_FILE = "\0file"
_NAMESAKE = "\0namesake"
_HIDDEN = r"(^|/)\."
_BASE_NAME = r"([^/]*)$"
_SLICE_ROWS = 10_000
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MetadataRows:
    """The metadata table with each path once.

    Attributes:
        table: `path` as the source spells it, `EXPLICIT_KEY`, and the user's columns under the catalog's names. Rows
            without a path are included.
        num_merged: rows that were left out because they repeat another row.
    """

    table: pl.DataFrame
    num_merged: int = 0

    def joinable(self) -> pl.DataFrame:
        """The rows that have a path."""
        return self.table.filter(pl.col("path").is_not_null()).drop(_ROW)


def prepared_rows(metadata: pl.DataFrame | None, key_column: str | None, files: pl.Series) -> MetadataRows:
    """The metadata table, prepared for a source with these files; an empty table for None.

    Equal rows for one path are merged. The path `./a.wav` is `a.wav`.

    Raises:
        ConfigError: the table has no column `path` or no key column, a column cannot be stored, or rows for one path
            differ.
    """
    if metadata is None:
        return MetadataRows(_tidy(pl.DataFrame(schema={"path": pl.String}), None))
    table = _tidy(metadata, key_column)
    return _merged(table.with_columns(spelled_as_files(table["path"], files)))


def rejected_metadata_rows(rows: MetadataRows, files: pl.Series) -> pl.DataFrame:
    """Rows of the metadata table that match no file: `path`, `code`, `reason`."""
    path, row = pl.col("path").fill_null(""), pl.col(_ROW)
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
        said = pl.format(f"row {{}} of the metadata table {sentence}", row)
        code, reason = (
            pl.when(condition).then(new).otherwise(old) for new, old in ((pl.lit(word), code), (said, reason))
        )
    judged = rows.table.select(path.alias("path"), code=code, reason=reason)
    return _with_namesakes(judged.filter(pl.col("code").is_not_null()), files)


def _tidy(metadata: pl.DataFrame, key_column: str | None) -> pl.DataFrame:
    """The metadata table under the catalog's column names, with normalized paths, keys, and row numbers from 1."""
    if "path" not in metadata.columns:
        raise ConfigError(f"the metadata table has no column 'path'; its columns are {', '.join(metadata.columns)}")
    check_types(metadata)
    if key_column is not None and key_column not in metadata.columns:
        raise ConfigError(
            f"source.key_column: the metadata table has no column {key_column!r}; its columns are "
            f"{', '.join(metadata.columns)}"
        )
    key = pl.lit(None, dtype=pl.String) if key_column is None else pl.col(key_column).cast(pl.String)
    names = stored_names(name for name in metadata.columns if name not in {"path", key_column})
    table = metadata.select(
        pl.col("path").cast(pl.String),
        key.replace("", None).alias(EXPLICIT_KEY),
        pl.int_range(1, pl.len() + 1).alias(_ROW),
        *(pl.col(name).alias(stored) for name, stored in names.items()),
    )
    return table.with_columns(tidy_paths(table["path"]))


def _merged(table: pl.DataFrame) -> MetadataRows:
    """The table with each path once. Raises `ConfigError` if rows for one path differ."""
    has_path = pl.col("path").is_not_null() & (pl.col("path") != "")
    several = table.filter(has_path & pl.col("path").is_duplicated())
    if several.is_empty():
        return MetadataRows(table)
    contents = several.select("path", _ROW, _contents(several))
    groups = contents.group_by("path", maintain_order=True).agg(_ROW, _CONTENT)
    if (differing := groups.filter(pl.col(_CONTENT).list.n_unique() > 1)).height:
        raise ConfigError(_why_several(differing, _columns(several)))
    merged = table.filter(~has_path | pl.col("path").is_first_distinct())
    return MetadataRows(merged, table.height - merged.height)


def _contents(table: pl.DataFrame) -> pl.Series:
    """Key and metadata of each row, as one line of JSON."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    texts: list[str] = []
    for piece in table.iter_slices(_SLICE_ROWS):
        _, rows = json_rows(piece.drop(EXPLICIT_KEY, _ROW))
        texts += [encode([key, *row]) for key, row in zip(piece[EXPLICIT_KEY], rows, strict=True)]
    return pl.Series(_CONTENT, texts, dtype=pl.String)


def _columns(table: pl.DataFrame) -> list[str]:
    """Names of the values in `_contents`, for messages."""
    return ["the key", *json_rows(table.drop(EXPLICIT_KEY, _ROW).clear())[0]]


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
