"""Plans the samples of recordings: their keys, their JSON, and the recordings that are too short for a sample. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.assemble.encoding_tasks import fields_of
from headrace.assemble.plan import PlannedSample
from headrace.assemble.taken_over import audio_digest
from headrace.audio import AudioFormat, EncodedSegment, Segment, plan_segments, planned_bytes
from headrace.catalog.rows.recordings import FieldFile, Recording
from headrace.errors import ConfigError
from headrace.format.manifests.manifests import ManifestRejection
from headrace.format.rejects import RejectReason
from headrace.format.segment_keys import segment_key
from headrace.sources.content_digests import named_digest

Planned = dict[str, tuple[Recording, Segment]]
"""Key of each sample to write → its recording and segment."""


def planned_samples(recordings: Sequence[Recording], audio: AudioFormat) -> tuple[Planned, list[ManifestRejection]]:
    """Plan the samples of recordings, without excluded segments.

    A span is one sample. Its segment begins at frame 0 of the span, because a span is cut before it is converted.

    Returns:
        The samples by key, in the order of the recordings and their segments; and a rejection for each recording that
        is too short for a sample, with the key if it is a span.
    """
    is_whole = audio.segment_seconds is None
    planned: Planned = {}
    refused: list[ManifestRejection] = []
    for recording in recordings:
        try:
            segments = plan_segments(recording.span.num_frames, recording.info.sample_rate_hz, audio)
            reason = _why_none(recording, audio)
        except ConfigError as error:  # shards keep the source's rate, at which this recording's segments are too short
            segments, reason = (), str(error)
        if not segments:
            refused.append(
                ManifestRejection(recording.path, RejectReason.TOO_SHORT.value, reason, rejection_key(recording))
            )
        for segment in segments:
            key = sample_key(recording, segment, is_whole=is_whole)
            if key not in recording.excluded_segments:
                planned[key] = recording, segment
    return planned, refused


def rejection_key(recording: Recording) -> str:
    """The key in a rejection: empty if the path names the row, because it is a whole file with one audio field."""
    return recording.key if recording.is_span or recording.fields else ""


def ordered_samples(planned: Planned, audio: AudioFormat) -> list[PlannedSample]:
    """The samples for `plan_shards`: those of one file together, its segments and spans in order."""
    return [
        PlannedSample(
            key=key,
            recording=recording.path if recording.is_span else recording.key,
            index=recording.start_frame if recording.is_span else segment.index,
            digest=recording.sample_digest,
            num_bytes=sum(_planned_bytes(row, audio, segment) for row in fields_of(recording)),
            audio=audio_digest(key, recording, segment, audio),
        )
        for key, (recording, segment) in planned.items()
    ]


def sample_json(
    recording: Recording, segment: Segment, encoded: EncodedSegment, fields: Mapping[str, EncodedSegment] | None = None
) -> bytes:
    """The `<key>.json` of a sample: the user's metadata, and its origin under `headrace`.

    Args:
        recording: the row that it is made from.
        segment: its part of that.
        encoded: its audio; of the first field, if there are named ones.
        fields: the audio of each named field.
    """
    provenance: dict[str, Any] = {
        "source": recording.path,
        **named_digest(recording.sha256),
        **_begin(recording, segment),
        "num_frames": encoded.num_frames,
        "sample_rate": encoded.sample_rate_hz,
        "num_channels": encoded.num_channels,
    }
    if fields:
        provenance["fields"] = {file.name: _origin(file, fields[file.name]) for file in recording.fields}
    return json.dumps({**recording.metadata, "headrace": provenance}, ensure_ascii=False).encode()


def _planned_bytes(row: Recording, audio: AudioFormat, segment: Segment) -> int:
    """The size that is planned for the audio of a row in one file. Chosen channels are never the recording's bytes."""
    if not row.channels:
        return planned_bytes(row.info, audio, segment, row.num_bytes)
    chosen = replace(row.info, num_channels=len(row.channels), container="")
    return planned_bytes(chosen, audio, segment, row.num_bytes)


def _origin(file: FieldFile, encoded: EncodedSegment) -> dict[str, Any]:
    """The origin of a named audio field."""
    return {"source": file.path, **named_digest(file.sha256), "num_channels": encoded.num_channels}


def _begin(recording: Recording, segment: Segment) -> dict[str, Any]:
    """Start of a sample: a segment at the shard's rate, a span at the recording's own rate, with its channels."""
    if not recording.is_span:
        return {"start_frame": segment.start_frame}
    return {
        "start_frame": recording.span.start_frame,
        "stop_frame": recording.span.stop_frame,
        "source_sample_rate": recording.info.sample_rate_hz,
        **({"channels": list(recording.channels)} if recording.channels else {}),
    }


def sample_key(recording: Recording, segment: Segment, *, is_whole: bool) -> str:
    """Key of a sample: that of its recording, with the segment's number unless the sample is the whole recording."""
    return recording.key if is_whole else segment_key(recording.key, segment.index)


def _why_none(recording: Recording, audio: AudioFormat) -> str:
    """Why a recording with a valid header is too short for a sample."""
    what = "span" if recording.is_span else "recording"
    length = f"the {what}'s {recording.span.num_frames} frames at {recording.info.sample_rate_hz} Hz"
    if audio.segment_seconds is None:
        return f"{length} leave no frame at {audio.sample_rate_hz} Hz (audio.sample_rate)"
    return (
        f"{length} are shorter than audio.segment_seconds: {audio.segment_seconds:g}, and audio.last_segment is "
        f"{audio.last_segment}"
    )
