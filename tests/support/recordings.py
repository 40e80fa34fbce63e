"""Rows of the catalog as values, without a source."""

from headrace.audio import AudioInfo
from headrace.catalog.rows.recordings import Recording


def recording(key="a", num_frames=100, rate_hz=10, subtype="PCM_16", **changes):
    """A recording of a WAV file that is not there."""
    info = AudioInfo("WAV", subtype, num_frames, rate_hz, 1, 16)
    facts = {"path": f"{key}.wav", "sha256": "ab" * 32, "digest": f"digest of {key}", "metadata": {}}
    return Recording(**{"key": key, "num_bytes": 1000, "mtime_ns": 1, "ctime_ns": 1, "info": info, **facts, **changes})
