"""Fingerprints of recordings: what later steps compare to know that nothing changed.

Owns which facts count. A digest covers what can reach a shard: key, path (it is written as the sample's source),
content, shape of the audio and metadata; not the time of change, and no other file. The text that is hashed is made
here and not by a library, so an upgrade of polars makes nothing stale.
"""

import hashlib
import json

import polars as pl

from headrace.metadata_columns import metadata_rows

_DIGEST_LENGTH = 32
_SLICE_ROWS = 10_000
_COLUMNS = ("key", "path", "sha256", "num_frames", "sample_rate_hz", "num_channels", "bits_per_sample")


def recording_digests(recordings: pl.DataFrame) -> pl.Series:
    """One digest (32 hex digits of a SHA-256) for each row of a recordings table, as `recording_digest`."""
    # By slices: a million recordings never become a million Python values at once.
    slices = [_digests(piece) for piece in recordings.iter_slices(_SLICE_ROWS)]
    return pl.concat([pl.Series("recording_digest", [], dtype=pl.String), *slices])


def _digests(recordings: pl.DataFrame) -> pl.Series:
    # NUL parts the fields: no path holds it, and JSON writes it escaped.
    columns = [pl.col(name).cast(pl.String).fill_null("") for name in _COLUMNS]
    facts = recordings.select(pl.concat_str(columns, separator="\0")).to_series()
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    names, rows = metadata_rows(recordings)
    header = encode(names)
    digests = [_digest(f"{fact}\0{header}\0{encode(row)}") for fact, row in zip(facts, rows, strict=True)]
    return pl.Series("recording_digest", digests, dtype=pl.String)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
