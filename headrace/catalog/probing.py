"""Reads the new and changed files of a source on threads: the SHA-256 of each file, and the facts of its header.

A file that changes while it is read is left for the next scan. Decisions that depend on settings, metadata or other
files are in `headrace.catalog.acceptance`.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog.columns import AUDIO_SCHEMA, FACT_SCHEMA, STAMP_SCHEMA
from headrace.catalog.listing import FileStamp
from headrace.catalog.sources import Source
from headrace.errors import AudioError, UnsafePathError
from headrace.format.rejects import RejectReason

_SLICE_ROWS = 10_000
_READ_BYTES = 1 << 20
_NO_AUDIO = (None,) * len(AUDIO_SCHEMA)


class Probe(Protocol):
    """A function that reads the header of an audio file, such as `headrace.audio.probe`. Raises `AudioError`."""

    def __call__(self, file: BinaryIO, *, num_bytes: int) -> AudioInfo:
        """Read the header of an open file."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Facts of the files that were read (`FACT_SCHEMA`), and the files that changed meanwhile (`STAMP_SCHEMA`)."""

    facts: pl.DataFrame
    changing: pl.DataFrame


def probe_files(
    source: Source, to_open: pl.DataFrame, probe: Probe, num_threads: int, progress: Callable[[int, int], None]
) -> ProbeResult:
    """Read every file of `to_open` once. The results are in the same order.

    Args:
        source: the source of the files.
        to_open: paths with their stamps from the listing (`STAMP_SCHEMA`).
        probe: reads a header.
        num_threads: files open at the same time; hashing and reading release the GIL.
        progress: called after each file with (files read, files to read), in the caller's thread.
    """
    parts: list[pl.DataFrame] = []
    changing: list[pl.DataFrame] = []
    num_done = 0
    with ThreadPoolExecutor(num_threads, thread_name_prefix="headrace-scan") as pool:
        for piece in to_open.iter_slices(_SLICE_ROWS):  # in slices, so that no object per file outlives its slice
            stamps = [FileStamp(*row) for row in piece.select("num_bytes", "mtime_ns").iter_rows()]
            rows: list[tuple[Any, ...] | None] = []
            for row in pool.map(lambda path, stamp: _examine(source, path, stamp, probe), piece["path"], stamps):
                rows.append(row)
                num_done += 1
                progress(num_done, to_open.height)
            parts.append(pl.DataFrame([row for row in rows if row], schema=FACT_SCHEMA, orient="row"))
            changing.append(piece.filter(pl.Series([row is None for row in rows], dtype=pl.Boolean)))
    return ProbeResult(
        pl.concat([pl.DataFrame(schema=FACT_SCHEMA), *parts]),
        pl.concat([pl.DataFrame(schema=STAMP_SCHEMA), *changing]),
    )


def _examine(source: Source, path: str, listed: FileStamp, probe: Probe) -> tuple[Any, ...] | None:
    """One row of facts; None if the file changed after the listing or while it was read."""
    head = (path, listed.num_bytes, listed.mtime_ns)
    try:
        if source.stamp(path) != listed:
            return None
        with source.open(path) as file:
            sha256 = _sha256(file)
            file.seek(0)
            found = _probed(file, listed.num_bytes, probe)
        return (*head, sha256, *found) if source.stamp(path) == listed else None
    except FileNotFoundError:
        return None
    except UnsafePathError:
        return (*head, None, *_NO_AUDIO, RejectReason.OUTSIDE_ROOT, "leads outside the source root")
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; check permissions and the disk"
        return (*head, None, *_NO_AUDIO, RejectReason.UNREADABLE, reason)


def _probed(file: BinaryIO, num_bytes: int, probe: Probe) -> tuple[Any, ...]:
    try:
        info = probe(file, num_bytes=num_bytes)
    except AudioError as error:
        return (*_NO_AUDIO, str(error.reason), str(error))
    return (*(getattr(info, name) for name in AUDIO_SCHEMA), None, None)


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(_READ_BYTES):
        digest.update(piece)  # releases the GIL
    return digest.hexdigest()
