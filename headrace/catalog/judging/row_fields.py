"""Judges the files of named audio fields (`source.fields`) that rows of the metadata table name. Pure.

All files of a row must be usable, have one sample rate, and have the same length within `span_tolerance_seconds`. The
row then ends with its shortest file, so that all of its fields have the same frames.
"""

from dataclasses import dataclass

import polars as pl

from headrace.audio import AudioReject
from headrace.catalog.judging.acceptance import CatalogSettings, with_rejects
from headrace.catalog.rows.field_files import field_files_json
from headrace.catalog.rows.row_columns import field_column, row_said
from headrace.catalog.rows.schemas import FILE_SCHEMA
from headrace.format.rejects import RejectReason

WAITS = "\0waits"
"""Whether a row waits for a file of a field that is left for the next scan."""
LENGTH = "\0length"
"""Frames of the shortest file of a row."""

_SLICE_ROWS = 10_000
_CODE, _REASON, _RATE, _FRAMES = "\0field_code", "\0field_reason", "\0field_rate", "\0field_frames"


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """Facts about the files that the rows of all parts name.

    Attributes:
        facts: one row per file (`FACT_SCHEMA`); at least those that the rows name and that the scan has read.
        unsettled: all paths that are left for the next scan.
    """

    facts: pl.DataFrame
    unsettled: pl.Series


def with_fields(rows: pl.DataFrame, files: FieldFacts, settings: CatalogSettings) -> pl.DataFrame:
    """Rows with `WAITS` and `LENGTH`; those with a file of a field that cannot be used are rejected.

    Args:
        rows: rows of usable recordings with the facts of these.
        files: the files of their other fields.
        settings: the settings of the scan.
    """
    rows = rows.with_columns(pl.lit(value=False).alias(WAITS), pl.col("num_frames").alias(LENGTH))
    for name in list(settings.fields)[1:]:
        rows = _with_field(rows, name, files, settings.span_tolerance_seconds)
    return rows


def _with_field(rows: pl.DataFrame, name: str, files: FieldFacts, tolerance_seconds: float) -> pl.DataFrame:
    facts, unsettled = files.facts, files.unsettled
    path = pl.col(field_column(name))
    found = facts.select(
        pl.col("path").alias(field_column(name)),
        pl.col("code").alias(_CODE),
        pl.col("reason").alias(_REASON),
        pl.col("sample_rate_hz").alias(_RATE),
        pl.col("num_frames").alias(_FRAMES),
    )
    rows = rows.join(found, on=field_column(name), how="left", maintain_order="left")
    waits = path.is_in(unsettled.implode()).fill_null(value=False)
    is_known = path.is_in(facts["path"].implode()) | waits
    rate = pl.col("sample_rate_hz")
    tolerance = (tolerance_seconds * rate + 0.5).floor()
    what = f"as audio field {name}"
    verdicts = (
        (RejectReason.BAD_NAME, path.fill_null("") == "", row_said(f"has no path of the audio field {name}")),
        (
            RejectReason.METADATA_WITHOUT_FILE,
            ~is_known,
            row_said(f"names {{}} {what}, which is not a file of the source", path),
        ),
        (
            RejectReason.FILE_REJECTED,
            pl.col(_CODE).is_not_null(),
            row_said(f"names {{}} {what}, which is rejected: {{}}", path, pl.col(_REASON)),
        ),
        (
            AudioReject.FIELDS_DIFFER,
            pl.col(_RATE) != rate,
            row_said(
                f"names {{}} {what} with {{}} Hz, but {{}} has {{}} Hz; resample the files to one rate",
                path,
                pl.col(_RATE),
                pl.col("path"),
                rate,
            ),
        ),
        (
            AudioReject.FIELDS_DIFFER,
            (pl.col(_FRAMES) - pl.col("num_frames")).abs() > tolerance,
            row_said(
                f"names {{}} {what} with {{}} frames, but {{}} has {{}} frames at {{}} Hz; "
                "source.span_tolerance_seconds is {}",
                path,
                pl.col(_FRAMES),
                pl.col("path"),
                pl.col("num_frames"),
                rate,
                pl.lit(tolerance_seconds),
            ),
        ),
    )
    for code, condition, reason in verdicts:
        rows = with_rejects(rows, condition.fill_null(value=False), code, reason)
    return rows.with_columns(
        (pl.col(WAITS) | (waits & pl.col("code").is_null())).alias(WAITS),
        pl.min_horizontal(LENGTH, _FRAMES).alias(LENGTH),
    ).drop(_CODE, _REASON, _RATE, _FRAMES)


def with_field_files(rows: pl.DataFrame, facts: pl.DataFrame, settings: CatalogSettings) -> pl.DataFrame:
    """Accepted rows with `field_files`: null without named audio fields."""
    names = list(settings.fields)
    if not names:
        return rows.with_columns(pl.lit(None, dtype=pl.String).alias("field_files"))
    columns = ["path", *(field_column(name) for name in names[1:])]
    files = rows.select(columns)
    for number, column in enumerate(columns):
        of_field = facts.select(pl.col("path").alias(column), pl.struct(*FILE_SCHEMA).alias(f"\0file{number}"))
        files = files.join(of_field, on=column, how="left", maintain_order="left")
    texts = [
        field_files_json(names, of_row)
        for piece in files.drop(columns).iter_slices(_SLICE_ROWS)  # dictionaries of all rows would need much memory
        for of_row in piece.iter_rows()
    ]
    return rows.with_columns(pl.Series("field_files", texts, dtype=pl.String))
