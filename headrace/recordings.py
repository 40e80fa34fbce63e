"""A recording as a build sees it: one typed value.

Owns the value and the fingerprint of a partition's recordings. It reads no table: `headrace.catalog_partitions` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.audio import AudioInfo
from headrace.fingerprints import combined_digest


@dataclass(frozen=True, slots=True)
class Recording:
    """One source file that becomes samples.

    Attributes:
        key: its key; a single sample has the same.
        path: relative to the source root.
        sha256: digest of the file's bytes, hex.
        num_bytes: size of the file when it was scanned.
        mtime_ns: its time of change then.
        info: what its header says.
        digest: of everything that can reach a shard.
        metadata: the user's columns, as JSON values.
    """

    key: str
    path: str
    sha256: str
    num_bytes: int
    mtime_ns: int
    info: AudioInfo
    digest: str
    metadata: dict[str, Any]


def fingerprint_of(recordings: Sequence[Recording]) -> str:
    """Fingerprint of the partition that holds just these recordings."""
    return combined_digest(sorted(recording.digest for recording in recordings))
