"""Divides the samples of a shard into tasks, each of which one thread encodes at a time. Pure."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from headrace.audio import AudioFormat, Segment
from headrace.catalog.rows.recordings import Recording

TASK_SECONDS = 60.0
"""Audio of a full task: bounds the memory for long recordings."""
_TASK_SECONDS_NO_SEEK = 900.0  # if each task has to decode from the recording's beginning


@dataclass(frozen=True, slots=True)
class EncodingTask:
    """Samples that are encoded one after another, in the order of the shard: segments, or spans, of one file.

    Attributes:
        samples: a row of the catalog, and its segment.
        seconds: length of the samples.
    """

    samples: tuple[tuple[Recording, Segment], ...]
    seconds: float

    @property
    def recording(self) -> Recording:
        """The first row, for the facts of the file."""
        return self.samples[0][0]

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.recording.path

    @property
    def segments(self) -> list[Segment]:
        """The segments."""
        return [segment for _, segment in self.samples]

    @property
    def is_of_spans(self) -> bool:
        """Whether the samples are spans, which are cut before they are converted."""
        return self.recording.is_span

    @property
    def is_pass(self) -> bool:
        """Whether the file is decoded once for all spans of the build, because a seek is not exact."""
        return self.is_of_spans and not self.recording.info.has_exact_seek


def fields_of(recording: Recording) -> tuple[Recording, ...]:
    """A row for the file of each audio field, in the order of the fields; the row itself if its fields are not named.

    The key of such a row has the name of the field at its end.
    """
    if not recording.fields:
        return (recording,)
    return tuple(
        replace(
            recording,
            key=f"{recording.key}.{file.name}",
            path=file.path,
            sha256=file.sha256,
            num_bytes=file.num_bytes,
            mtime_ns=file.mtime_ns,
            ctime_ns=file.ctime_ns,
            info=file.info,
            stop_frame=recording.span.stop_frame,
            fields=(),
        )
        for file in recording.fields
    )


def tasks_of_fields(task: EncodingTask) -> tuple[EncodingTask, ...]:
    """A task for each audio field of the samples of a task, each of one file."""
    if not task.recording.fields:
        return (task,)
    rows = zip(*(fields_of(recording) for recording, _ in task.samples), strict=True)
    segments = task.segments
    return tuple(EncodingTask(tuple(zip(of_field, segments, strict=True)), task.seconds) for of_field in rows)


def tasks_of(samples: Iterable[tuple[Recording, Segment]], audio: AudioFormat) -> Iterator[EncodingTask]:
    """Divide samples into tasks, without changing their order.

    The segments of a task are ascending. The spans of a task may be in any order. The samples of a task have the same
    files.
    """
    for _, group in groupby(samples, key=lambda sample: _files(sample[0])):
        batch: list[tuple[Recording, Segment]] = []
        seconds = 0.0
        for recording, segment in group:
            length = segment.num_frames / (audio.sample_rate_hz or recording.info.sample_rate_hz)
            longest = math.inf if audio.transform else _longest(recording)  # it is given the whole recording
            if batch and (seconds + length > longest or _is_earlier(batch[-1], (recording, segment))):
                yield EncodingTask(tuple(batch), seconds)
                batch, seconds = [], 0.0
            batch.append((recording, segment))
            seconds += length
        yield EncodingTask(tuple(batch), seconds)


def spans_of_passes(tasks: Iterable[EncodingTask]) -> dict[str, list[Recording]]:
    """Path of each file that is decoded once → all of its spans in these tasks."""
    found: dict[str, list[Recording]] = {}
    for task in tasks:
        if task.is_pass:
            found.setdefault(task.path, []).extend(recording for recording, _ in task.samples)
    return found


def _files(recording: Recording) -> list[tuple[str, bool]]:
    """Path of the file of each audio field, and whether only a part of the file is wanted."""
    return [(row.path, row.is_span) for row in fields_of(recording)]


def _longest(recording: Recording) -> float:
    """Seconds of audio of a full task."""
    return TASK_SECONDS if recording.info.has_exact_seek or recording.is_span else _TASK_SECONDS_NO_SEEK


def _is_earlier(last: tuple[Recording, Segment], sample: tuple[Recording, Segment]) -> bool:
    """Whether a sample cannot follow another in one task.

    A segment that was excluded for some time comes after later ones, and rows may name the same whole file.
    """
    return not sample[0].is_span and sample[1].start_frame <= last[1].start_frame
