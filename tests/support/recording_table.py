"""Rows of the table of recordings."""

import polars as pl

from headrace.catalog.rows.schemas import RECORDING_SCHEMA


def recordings(**changes):
    """A table of one recording, with these changes."""
    row = {
        **dict.fromkeys(RECORDING_SCHEMA),
        "key": "k",
        "path": "a.wav",
        "sha256": "1",
        "num_frames": 10,
        "sample_rate_hz": 10,
        "num_channels": 1,
        "bits_per_sample": 16,
        "start_frame": 0,
        "stop_frame": 10,
        "mtime_ns": 5,
    }
    return pl.DataFrame([row | changes], schema=RECORDING_SCHEMA).drop("recording_digest")
