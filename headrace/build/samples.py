"""Plans the samples of recordings: their keys, their JSON, and the recordings that are too short for a sample. Pure."""

import json
from collections.abc import Sequence

from headrace.audio import AudioFormat, EncodedSegment, Segment, plan_segments
from headrace.catalog.content_digests import named_digest
from headrace.catalog.recordings import Recording
from headrace.errors import ConfigError
from headrace.format.manifests import ManifestRejection
from headrace.format.rejects import RejectReason
from headrace.format.segment_keys import segment_key

Planned = dict[str, tuple[Recording, Segment]]
"""Key of each sample to write → its recording and segment."""


def planned_samples(recordings: Sequence[Recording], audio: AudioFormat) -> tuple[Planned, list[ManifestRejection]]:
    """Plan the samples of recordings, without excluded segments.

    Returns:
        The samples by key, and a rejection for each recording that is too short for a sample.
    """
    is_whole = audio.segment_seconds is None
    planned: Planned = {}
    refused: list[ManifestRejection] = []
    for recording in recordings:
        try:
            segments = plan_segments(recording.info.num_frames, recording.info.sample_rate_hz, audio)
            reason = _why_none(recording, audio)
        except ConfigError as error:  # shards keep the source's rate, at which this recording's segments are too short
            segments, reason = (), str(error)
        if not segments:
            refused.append(ManifestRejection(recording.path, RejectReason.TOO_SHORT.value, reason))
        for segment in segments:
            key = sample_key(recording, segment, is_whole=is_whole)
            if key not in recording.excluded_segments:
                planned[key] = recording, segment
    return planned, refused


def sample_json(recording: Recording, segment: Segment, encoded: EncodedSegment) -> bytes:
    """The `<key>.json` of a sample: the user's metadata, and its origin under `headrace`."""
    provenance = {
        "source": recording.path,
        **named_digest(recording.sha256),
        "start_frame": segment.start_frame,
        "num_frames": encoded.num_frames,
        "sample_rate": encoded.sample_rate_hz,
        "num_channels": encoded.num_channels,
    }
    return json.dumps({**recording.metadata, "headrace": provenance}, ensure_ascii=False).encode()


def sample_key(recording: Recording, segment: Segment, *, is_whole: bool) -> str:
    """Key of a sample: that of its recording, with the segment's number unless the sample is the whole recording."""
    return recording.key if is_whole else segment_key(recording.key, segment.index)


def _why_none(recording: Recording, audio: AudioFormat) -> str:
    """Why a recording with a valid header is too short for a sample."""
    length = f"the recording's {recording.info.num_frames} frames at {recording.info.sample_rate_hz} Hz"
    if audio.segment_seconds is None:
        return f"{length} leave no frame at {audio.sample_rate_hz} Hz (audio.sample_rate)"
    return (
        f"{length} are shorter than audio.segment_seconds: {audio.segment_seconds:g}, and audio.last_segment is "
        f"{audio.last_segment}"
    )
