"""`ScanRuntime`: how a scan runs, apart from what it scans."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace import audio
from headrace.catalog.scanning.probing import Probe
from headrace.catalog.scanning.scan_workers import FileWorkers, ReadingThreads
from headrace.catalog.tables.buckets import PART_BYTES
from headrace.machine import num_cores


@dataclass(frozen=True, slots=True)
class ScanRuntime:
    """Clock, workers and callbacks of a scan. Nothing here changes the result for files that do not change meanwhile.

    Attributes:
        clock: returns the current time in nanoseconds since 1970.
        sleep: waits for a number of seconds.
        workers: read the files.
        progress: called with (files read, files to read), in the caller's thread.
        resuming: called with the number of files that an interrupted scan has read, if there are any.
        settling: called with (files, seconds) before the scan waits that long for these files to settle.
        probe: reads a header.
        probe_version: returns a version of everything that the probe's results depend on.
        table_bytes: rows of a table of about this size are kept in memory; a larger table goes through a temporary
            file, and is joined in parts of this size.
    """

    clock: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    workers: FileWorkers = field(default_factory=lambda: ReadingThreads(4 * num_cores()))
    progress: Callable[[int, int], None] = lambda done, total: None  # noqa: ARG005
    resuming: Callable[[int], None] = lambda num_files: None  # noqa: ARG005
    settling: Callable[[int, float], None] = lambda num_files, seconds: None  # noqa: ARG005
    probe: Probe = audio.probe
    probe_version: Callable[[], str] = audio.probe_version
    table_bytes: int = PART_BYTES
