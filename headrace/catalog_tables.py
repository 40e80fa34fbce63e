"""The catalog's two tables: column names, types and what must hold of them.

Owns names and types. It reads and writes nothing.
"""

import polars as pl

Columns = dict[str, type[pl.DataType]]
"""Names and types, in order. (A `pl.Schema` loses its value type under mypy when it is unpacked into another.)"""

STAMP_SCHEMA = Columns({"path": pl.String, "num_bytes": pl.Int64, "mtime_ns": pl.Int64})
LISTING_SCHEMA = Columns({**STAMP_SCHEMA, "code": pl.String, "reason": pl.String})

AUDIO_SCHEMA = Columns(
    {
        "container": pl.String,
        "subtype": pl.String,
        "num_frames": pl.Int64,
        "sample_rate_hz": pl.Int64,
        "num_channels": pl.Int64,
        "bits_per_sample": pl.Int64,
    }
)
"""What a probe finds, under the names of `headrace.audio.AudioInfo`."""

FACT_SCHEMA = Columns({**STAMP_SCHEMA, "sha256": pl.String, **AUDIO_SCHEMA, "code": pl.String, "reason": pl.String})
"""All that is known of one file from itself alone: no settings, no metadata, no other file."""

RECORDING_SCHEMA = Columns(
    {
        "key": pl.String,
        "path": pl.String,
        "sha256": pl.String,
        "num_bytes": pl.Int64,
        "mtime_ns": pl.Int64,
        **AUDIO_SCHEMA,
        "duration_seconds": pl.Float64,
        "duplicate_of": pl.String,
        "recording_digest": pl.String,
    }
)
"""Our columns of the recordings table; the user's follow. `duplicate_of`: the first path with the same bytes."""

OWN_COLUMNS = frozenset(RECORDING_SCHEMA) | frozenset(FACT_SCHEMA) | {"partition"}
"""Names that are ours in a recordings table: `code` and `reason` while it is judged, `partition` once a layout has been
applied to it."""

REJECTED_SCHEMA = Columns(
    {
        "path": pl.String,
        "reason": pl.String,
        "code": pl.String,
        "origin": pl.String,
        "num_bytes": pl.Int64,
        "mtime_ns": pl.Int64,
        "sha256": pl.String,
        **AUDIO_SCHEMA,
    }
)
"""`reason` is a sentence for people, `code` one word for programs. What a probe found is kept, so that a file refused
for its key or its length need not be opened again when that changes."""
