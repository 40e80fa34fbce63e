"""`Recording`, a usable source file or a span of it as a typed value, and fingerprints of sets of recordings.

A recording's own digest is computed by `headrace.catalog.judging.acceptance`. This module needs no tables and no
polars, so that a sensor, and a run that builds shards, can do without them. `headrace.catalog.stored.partitions` makes
the values from the catalog's rows.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headrace.audio import AudioInfo, Span

_LINES_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class FieldFile:
    """The file of a named audio field.

    Attributes:
        name: name of the field.
        path: relative to the source root.
        sha256: as `Recording.sha256`.
        num_bytes: size of the file when it was scanned.
        mtime_ns: modification time of the file when it was scanned, nanoseconds since 1970.
        ctime_ns: change time of its inode likewise; 0 if it is not known.
        info: facts from the file's header.
    """

    name: str
    path: str
    sha256: str
    num_bytes: int
    mtime_ns: int
    ctime_ns: int
    info: AudioInfo


@dataclass(frozen=True, slots=True)
class Recording:
    """One row of the catalog: a source file that becomes one sample or several segments, or a span of a source file.

    Attributes:
        key: the recording's key; a sample that is a whole recording or a span has the same key.
        path: relative to the source root.
        sha256: digest of the file's bytes, hex, or the ETag of its object (`headrace.sources.content_digests`).
        num_bytes: size of the file when it was scanned.
        mtime_ns: modification time of the file when it was scanned, nanoseconds since 1970.
        ctime_ns: change time of its inode likewise; 0 if it is not known.
        info: facts from the file's header.
        digest: digest of everything that can reach a shard, see
            `headrace.catalog.judging.recording_digests`.
        metadata: the user's columns, as JSON values.
        excluded_segments: keys of segments that do not become samples.
        start_frame: first frame of the span, at the recording's own rate.
        stop_frame: one past the last frame of the span; None for the recording's end.
        channels: numbers of the channels that become the sample, from 0, in their order there. Empty for all.
        fields: the files of the named audio fields, in the order of the YAML; the first is the recording's own file.
            Empty for the one field `audio`. All files have one sample rate, and at least `span.stop_frame` frames.
    """

    key: str
    path: str
    sha256: str
    num_bytes: int
    mtime_ns: int
    ctime_ns: int
    info: AudioInfo
    digest: str
    metadata: dict[str, Any]
    excluded_segments: frozenset[str] = frozenset()
    start_frame: int = 0
    stop_frame: int | None = None
    channels: tuple[int, ...] = ()
    fields: tuple[FieldFile, ...] = ()

    @property
    def span(self) -> Span:
        """The frames and channels of the recording that become samples."""
        stop_frame = self.info.num_frames if self.stop_frame is None else self.stop_frame
        return Span(self.start_frame, stop_frame, self.channels)

    @property
    def is_span(self) -> bool:
        """Whether it is a part of the file: some of its frames, or of its channels."""
        return bool(self.channels) or self.start_frame != 0 or self.stop_frame not in (None, self.info.num_frames)

    @property
    def sample_digest(self) -> str:
        """Digest of everything that can reach any one of the recording's samples; excluded segments do not count."""
        return self.digest.partition("-")[0]


def parsed_channels(text: str | None) -> tuple[int, ...]:
    """The channels in the catalog's column `channels`; empty for all."""
    return tuple(map(int, text.split("-"))) if text else ()


def fingerprint_of(recordings: Sequence[Recording]) -> str:
    """Fingerprint of a partition that holds exactly these recordings."""
    return combined_digest(sorted(recording.digest for recording in recordings))


def combined_digest(digests: Iterable[str]) -> str:
    """Fingerprint of a set of recordings: SHA-256 (hex) of their digests, one per line.

    Args:
        digests: in ascending order. The caller sorts, so that a million digests need not become Python values at once.
    """
    combined = hashlib.sha256()
    remaining = iter(digests)
    separator = ""
    while lines := list(islice(remaining, _LINES_AT_ONCE)):
        combined.update((separator + "\n".join(lines)).encode())
        separator = "\n"
    return combined.hexdigest()
