"""Descriptions of the catalog's columns, for the web interface. The words for programs are in docs/format.md."""

from collections.abc import Mapping

import dagster as dg

DESCRIPTIONS: Mapping[str, str] = {
    "key": "key of the sample, or the beginning of the keys of its segments",
    "path": "path of the recording below the source",
    "num_bytes": "size of the file",
    "mtime_ns": "modification time of the file, in nanoseconds since 1970",
    "ctime_ns": "change time of the file's inode, in nanoseconds since 1970; 0 for an object of a store",
    "sha256": "SHA-256 of the file; with source.digests: store, etag- and the store's ETag",
    "container": "format of the file, such as WAV, FLAC or MP3",
    "subtype": "encoding of the audio in the file, such as PCM_16",
    "num_frames": "length of the file in PCM frames at its own rate",
    "sample_rate_hz": "sample rate of the file, in Hz",
    "num_channels": "number of channels of the file",
    "bits_per_sample": "bits of a PCM sample in the file",
    "start_frame": "first frame of the range that becomes a sample, at the file's own rate",
    "stop_frame": "frame after the last one of the range",
    "channels": "numbers of the channels that become the sample, such as 0 or 0-1; null for all",
    "duration_seconds": "length of the range, in seconds",
    "duplicate_of": "first path with the same bytes; null without one",
    "excluded_segments": "keys of segments that do not become samples, separated by spaces",
    "sidecars": "files beside the recording (source.sidecars) with their contents, as JSON; null without any",
    "field_files": "files of the named audio fields (source.fields), as JSON; null without such fields",
    "recording_digest": "digest of everything that can change a sample of the recording",
}
_OF_THE_TABLE = "column of your metadata table"


def catalog_schema(types: Mapping[str, object]) -> dg.TableSchema:
    """The columns of a catalog with their types and descriptions.

    Args:
        types: name → type of each column.
    """
    return dg.TableSchema(
        [
            dg.TableColumn(name, str(dtype), description=DESCRIPTIONS.get(name, _OF_THE_TABLE))
            for name, dtype in types.items()
        ]
    )
