"""Column names and types of the catalog's tables, and of the tables that a scan makes on the way.

The values are checked by `headrace.catalog.judging.validation`.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

ColumnTypes = dict[str, type[pl.DataType]]
"""Names and types, in order. (A `pl.Schema` loses its value type under mypy when it is unpacked into another.)"""

STAMP_SCHEMA = ColumnTypes({"path": pl.String, "num_bytes": pl.Int64, "mtime_ns": pl.Int64, "ctime_ns": pl.Int64})
LISTING_SCHEMA = ColumnTypes({**STAMP_SCHEMA, "code": pl.String, "reason": pl.String})

AUDIO_SCHEMA = ColumnTypes(
    {
        "container": pl.String,
        "subtype": pl.String,
        "num_frames": pl.Int64,
        "sample_rate_hz": pl.Int64,
        "num_channels": pl.Int64,
        "bits_per_sample": pl.Int64,
    }
)
"""Facts from a file's header, under the names of `headrace.audio.AudioInfo`."""

FACT_SCHEMA = ColumnTypes({**STAMP_SCHEMA, "sha256": pl.String, **AUDIO_SCHEMA, "code": pl.String, "reason": pl.String})
"""Facts of one file: independent of settings, metadata and all other files."""

FILE_SCHEMA = ColumnTypes({**STAMP_SCHEMA, "sha256": pl.String, **AUDIO_SCHEMA})
"""Stored facts of a file that has rows: `FACT_SCHEMA` of an accepted file."""

ROW_SCHEMA = ColumnTypes(
    {
        "key": pl.String,
        "path": pl.String,
        "start_frame": pl.Int64,
        "stop_frame": pl.Int64,
        "channels": pl.String,
        "duration_seconds": pl.Float64,
        "duplicate_of": pl.String,
        "excluded_segments": pl.String,
        "field_files": pl.String,
        "sidecars": pl.String,
        "recording_digest": pl.String,
    }
)
"""Headrace's own columns of a stored row; the user's columns follow. A row is identified by path, frames and
channels: the half-open range [start_frame, stop_frame) at the file's own rate. `channels` are the numbers of the
channels that become the sample, such as `0` or `0-1`; null for all. `duplicate_of` is the first path with the same
bytes. `excluded_segments` are the keys of segments that do not become samples, separated by spaces. `field_files` are
the files of the named audio fields (`headrace.catalog.rows.field_files`); null without such fields."""

RECORDING_SCHEMA = ColumnTypes({"key": pl.String, **FILE_SCHEMA, **ROW_SCHEMA})
"""Headrace's own columns of the recordings table, which is rows with the facts of their files; the user's columns
follow."""

OWN_COLUMNS = frozenset(RECORDING_SCHEMA) | frozenset(FACT_SCHEMA) | {"partition"}
"""Column names that Headrace uses in a recordings table. `code` and `reason` are there while files are accepted or
rejected, `partition` once the table has been divided into partitions."""

REJECTED_SCHEMA = ColumnTypes(
    {
        "path": pl.String,
        "reason": pl.String,
        "code": pl.String,
        "origin": pl.String,
        "key": pl.String,
        "num_bytes": pl.Int64,
        "mtime_ns": pl.Int64,
        "ctime_ns": pl.Int64,
        "sha256": pl.String,
        **AUDIO_SCHEMA,
    }
)
"""Columns of the rejected table. `reason` is a sentence for people, `code` a word for programs, `key` the key of the
sample or recording if there is one. `path` is empty for a rejection without a file. Facts from the header are kept, so
that a file rejected for its key or length need not be opened again when that changes."""

CONTENT = ("sha256", "start_frame", "stop_frame", "channels")
"""Two rows of a catalog with equal values in these columns have the same audio."""


def contents(recordings: pl.DataFrame) -> pl.Series:
    """A text for the audio of each row, the same for the same frames and channels of files with the same bytes."""
    return recordings.select(pl.concat_str(CONTENT, separator=" ", ignore_nulls=True).alias("content")).to_series()


def seconds_of(frames: pl.Expr, rate_hz: pl.Expr) -> pl.Expr:
    """Seconds, as Python and numpy divide.

    polars multiplies by the reciprocal if it knows that all rates of a table are equal, so 7 frames at 10 Hz would be
    0.7 or 0.7000000000000001 s, depending on the other rows of the table.
    """
    numbers = [frames.cast(pl.Float64), rate_hz.cast(pl.Float64)]
    return pl.map_batches(numbers, _quotient, return_dtype=pl.Float64)


def _quotient(numbers: Sequence[pl.Series]) -> pl.Series:
    dividend, divisor = (column.to_numpy() for column in numbers)  # null is NaN there
    return pl.Series(np.divide(dividend, divisor)).fill_nan(None)
