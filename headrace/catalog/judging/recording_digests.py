"""Digests of recordings, by which later steps detect that a recording has changed, and parts of files."""

import hashlib
import json

import polars as pl

from headrace.catalog.rows.field_files import digested_field_files
from headrace.catalog.rows.metadata_columns import json_rows

_DIGEST_LENGTH = 32
_SLICE_ROWS = 10_000
_DIGEST_COLUMNS = ("key", "path", "sha256", "num_frames", "sample_rate_hz", "num_channels", "bits_per_sample")


def recording_digests(recordings: pl.DataFrame) -> pl.Series:
    """The column `recording_digest` of a recordings table: 32 hex digits of a SHA-256.

    The digest covers everything that can reach a shard: key, path (it is written as the sample's source), content,
    shape of the audio, the span and the channels if they are not the whole file, and metadata (none is in the table
    with `source.json: minimal`). It covers neither the modification time nor
    other files. If segments are excluded, a hyphen and 32 digits over their keys follow; samples are compared by the
    part before the hyphen. The hashed text is made here and not by a library, so that an upgrade of polars makes
    nothing stale.
    """
    # In slices: a million recordings must not become a million Python values at once.
    slices = [_digests(piece) for piece in recordings.iter_slices(_SLICE_ROWS)]
    return pl.concat([pl.Series("recording_digest", [], dtype=pl.String), *slices])


def _digests(recordings: pl.DataFrame) -> pl.Series:
    # NUL separates the fields: no path contains it, and JSON escapes it.
    columns = [pl.col(name).cast(pl.String).fill_null("") for name in _DIGEST_COLUMNS]
    facts = recordings.select(pl.concat_str(columns, separator="\0")).to_series()
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    names, rows = json_rows(recordings)
    header = encode(names)
    span = pl.format("\0{}-{}{}", "start_frame", "stop_frame", ("\0c" + pl.col("channels")).fill_null(""))
    facts += recordings.select(pl.when(is_part_of_file()).then(span).otherwise(pl.lit(""))).to_series()
    facts += pl.Series([digested_field_files(text) for text in recordings["field_files"]], dtype=pl.String)
    digests = [
        _digest(f"{fact}\0{header}\0{encode(row)}") + (f"-{_digest(excluded)}" if excluded else "")
        for fact, row, excluded in zip(facts, rows, recordings["excluded_segments"], strict=True)
    ]
    return pl.Series("recording_digest", digests, dtype=pl.String)


def is_part_of_file() -> pl.Expr:
    """Whether a row is some of the frames, or of the channels, of its file."""
    is_cut = (pl.col("start_frame") > 0) | (pl.col("stop_frame") < pl.col("num_frames"))
    return is_cut | pl.col("channels").is_not_null()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
