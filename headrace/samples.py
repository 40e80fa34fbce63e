"""The samples that recordings should give: their keys, their JSON, and the recordings that give none.

Owns what a sample is called and what is said beside it. Pure: it plans from headers, opens nothing and writes nothing.
"""

import json
import re
from collections.abc import Sequence

from headrace.audio import AudioFormat, EncodedSegment, Segment, plan_segments
from headrace.errors import ConfigError
from headrace.manifests import Refusal
from headrace.recordings import Recording
from headrace.rejects import Reject

Planned = dict[str, tuple[Recording, Segment]]
"""Every sample to write, by key."""
_SEGMENT = re.compile(r"-s\d{6,}$")


def planned_samples(recordings: Sequence[Recording], audio: AudioFormat) -> tuple[Planned, list[Refusal]]:
    """Every sample that the recordings should give, and a refusal for each recording that gives none."""
    is_whole = audio.segment_seconds is None
    planned: Planned = {}
    refused: list[Refusal] = []
    for recording in recordings:
        try:
            segments = plan_segments(recording.info.num_frames, recording.info.sample_rate_hz, audio)
            reason = _why_none(recording, audio)
        except ConfigError as error:  # of this recording alone: the shard keeps its rate
            segments, reason = (), str(error)
        if not segments:
            refused.append(Refusal(recording.path, Reject.TOO_SHORT.value, reason))
        for segment in segments:
            planned[sample_key(recording, segment, is_whole=is_whole)] = recording, segment
    return planned, refused


def sample_json(recording: Recording, segment: Segment, encoded: EncodedSegment) -> bytes:
    """The `<key>.json` of a sample: the user's columns, and provenance under `headrace`."""
    provenance = {
        "source": recording.path,
        "source_sha256": recording.sha256,
        "start_frame": segment.start_frame,
        "num_frames": encoded.num_frames,
        "sample_rate": encoded.sample_rate_hz,
        "num_channels": encoded.num_channels,
    }
    return json.dumps({**recording.metadata, "headrace": provenance}, ensure_ascii=False).encode()


def sample_key(recording: Recording, segment: Segment, *, is_whole: bool) -> str:
    """Key of a sample: the recording's own, or with the segment's number when recordings are cut."""
    return recording.key if is_whole else f"{recording.key}-s{segment.index:06d}"


def recording_key(key: str) -> str:
    """Key of the recording that a sample was cut from; a whole one whose key looks like a segment's loses its end.

    >>> recording_key("birds/dawn-s000012"), recording_key("birds/dawn")
    ('birds/dawn', 'birds/dawn')
    """
    return _SEGMENT.sub("", key)


def _why_none(recording: Recording, audio: AudioFormat) -> str:
    """Why a recording with a sound header gives no sample, in words."""
    length = f"{recording.info.num_frames} frames at {recording.info.sample_rate_hz} Hz"
    if audio.segment_seconds is None:
        return f"{length} leave no frame at {audio.sample_rate_hz} Hz (audio.sample_rate)"
    return (
        f"{length} are shorter than audio.segment_seconds: {audio.segment_seconds:g}, and audio.last_segment is "
        f"{audio.last_segment}"
    )
